import type pg from 'pg'
import { isSluiceError, SluiceError } from '../../errors.ts'
import { Session } from '../../session/session.ts'
import { transactionControlIn } from './transaction-control.ts'

export interface Guard {
  /** Runs before each statement; throws if the handler may not use the connection any more. */
  readonly beforeQuery: (text: string) => void
  /** The handler tried to end the transaction. */
  readonly onViolation: (error: SluiceError) => void
  /** Sends in one packet what `beforeQuery` sends, and the statement. */
  readonly together: <T>(send: () => T) => T
  /** A statement is about to be sent. Returns what to call with its answer, or with its error. */
  readonly onSent: () => (error?: unknown) => void
}

/**
 * A batch's `pg` client as a handler may use it: everything that `pg` clients do, except to end the transaction or
 * the connection. COMMIT and ROLLBACK are refused before they reach the server, because after one the batch's locks,
 * and its siblings' effects, could not be brought back.
 */
export function guardClient(client: pg.PoolClient, guard: Guard): pg.PoolClient {
  return new Proxy(client, {
    get(target, property) {
      if (property === 'query') return (...args: unknown[]) => guard.together(() => query(target, guard, args))
      if (property === 'release' || property === 'end' || property === 'connect') return () => refuse(property, guard)
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

type Callback = (...results: unknown[]) => void

function query(client: pg.PoolClient, guard: Guard, given: readonly unknown[]): unknown {
  const { args, callback } = callbackApart(given)
  const text = textOf(args[0])
  const { strings } = Session.of(client)
  try {
    guard.beforeQuery(text)
    for (const escapes of strings.possibleEscapes) {
      const control = transactionControlIn(text, escapes)
      if (control !== undefined) refuse(control, guard)
    }
  } catch (error) {
    if (callback !== undefined) return queueMicrotask(() => callback(error))
    const refused = Promise.reject(error)
    // The guard knows already: a handler that does not await it must not bring the process down.
    if (isSluiceError(error, 'TRANSACTION_CONTROL') || isSluiceError(error, 'TRANSACTION_CLOSED'))
      refused.catch(() => undefined)
    return refused
  }
  const read = strings.sent(text)
  const answered = guard.onSent()
  return send(client, args, callback, (error) => {
    read()
    answered(error)
  })
}

/** `pg` takes a callback as its last argument, and in the statement. */
function callbackApart(given: readonly unknown[]): {
  readonly args: unknown[]
  readonly callback: Callback | undefined
} {
  const at = given.findIndex((arg) => typeof arg === 'function')
  if (at !== -1) return { args: given.slice(0, at), callback: given[at] as Callback }
  const [config, ...rest] = given
  if (typeof config === 'object' && config !== null && 'callback' in config && !('submit' in config)) {
    return { args: [{ ...config, callback: undefined }, ...rest], callback: config.callback as Callback }
  }
  return { args: [...given], callback: undefined }
}

function send(
  client: pg.PoolClient,
  args: unknown[],
  callback: Callback | undefined,
  answered: (error?: unknown) => void,
): unknown {
  const withCallback = (...results: unknown[]) => {
    answered(results[0])
    callback?.(...results)
  }
  try {
    const result: unknown = Reflect.apply(client.query, client, callback === undefined ? args : [...args, withCallback])
    if (result instanceof Promise) return awaited(result, answered)
    // An object with events of its own, whose answer is not ours to take.
    if (callback === undefined) answered()
    return result
  } catch (error) {
    answered(error)
    throw error
  }
}

/**
 * The answer for the handler. V8 finds the functions that await a promise only if nothing else has been added to it, and
 * the driver takes the stack of an error when its promise is rejected. So what we do is in the chain, not beside it.
 */
export function awaited(result: Promise<unknown>, answered: (error?: unknown) => void): Promise<unknown> {
  const given = result.then(
    (answer) => {
      answered()
      return answer
    },
    (error: unknown) => {
      answered(error)
      // An error that is not awaited must not bring the process down: its message fails. The stack is taken by now.
      given.catch(() => undefined)
      throw error
    },
  )
  return given
}

function textOf(config: unknown): string {
  if (typeof config === 'string') return config
  if (typeof config === 'object' && config !== null && 'text' in config && typeof config.text === 'string')
    return config.text
  return ''
}

function refuse(what: string, guard: Guard): never {
  const error = new SluiceError(
    'TRANSACTION_CONTROL',
    PREPARES.test(what)
      ? `The batch's connection: expected its prepared statements to stay as they are, received ${what}. ` +
          'Use tx.client.query({ name, text, values }) instead'
      : `The transaction: expected to stay open until its messages are settled, received ${what}. ` +
          'Return to commit, throw to roll back, or use a savepoint for a part',
  )
  guard.onViolation(error)
  throw error
}

const PREPARES = /^(?:PREPARE|DEALLOCATE)$/

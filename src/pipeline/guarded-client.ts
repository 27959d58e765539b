import type pg from 'pg'
import { SluiceError } from '../errors.ts'
import { transactionControlIn } from './transaction-control.ts'

export interface Guard {
  /** Runs before each statement; throws if the handler may not use the connection any more. */
  readonly beforeQuery: () => void
  /** The handler tried to end the transaction. */
  readonly onViolation: (error: SluiceError) => void
  /** A statement has been sent, or has been answered. */
  readonly onPending: (change: 1 | -1) => void
}

/**
 * A batch's `pg` client as a handler may use it: everything that `pg` clients do, except to end the transaction or
 * the connection. COMMIT and ROLLBACK are refused before they reach the server, because after one the batch's locks,
 * and its siblings' effects, could not be brought back.
 */
export function guardClient(client: pg.PoolClient, guard: Guard): pg.PoolClient {
  return new Proxy(client, {
    get(target, property) {
      if (property === 'query') return (...args: unknown[]) => query(target, guard, args)
      if (property === 'release' || property === 'end' || property === 'connect') return () => refuse(property, guard)
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function query(client: pg.PoolClient, guard: Guard, args: unknown[]): unknown {
  const callback = args.findIndex((arg) => typeof arg === 'function')
  try {
    guard.beforeQuery()
    const control = transactionControlIn(textOf(args[0]))
    if (control !== undefined) refuse(control, guard)
  } catch (error) {
    if (callback === -1) return Promise.reject(error)
    queueMicrotask(() => (args[callback] as (error: unknown) => void)(error))
    return undefined
  }
  guard.onPending(1)
  if (callback !== -1) {
    const answer = args[callback] as (...results: unknown[]) => void
    args[callback] = (...results: unknown[]) => {
      guard.onPending(-1)
      answer(...results)
    }
    return Reflect.apply(client.query, client, args)
  }
  const result: unknown = Reflect.apply(client.query, client, args)
  if (result instanceof Promise) return result.finally(() => guard.onPending(-1))
  guard.onPending(-1)
  return result
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
    `The batch's transaction: expected to stay open until the batch is settled, received ${what}. ` +
      'Return to commit, throw to roll back, or use a savepoint for a part',
  )
  guard.onViolation(error)
  throw error
}

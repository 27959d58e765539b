import pg from 'pg'
import type { SluiceError } from '../../errors.ts'
import { awaited } from './guarded-client.ts'
import { Savepoints, type Step, type Verb } from './savepoints.ts'

/**
 * A pool with one connection, a handler's, for libraries that take a pool or begin transactions of their own: those become
 * savepoints. It waits for nothing and opens nothing.
 */
export class LentPool extends pg.Pool {
  readonly #savepoints: Savepoints

  /** @param onViolation the handler's writes must not be kept */
  constructor(client: pg.PoolClient, onViolation: (error: SluiceError) => void) {
    super()
    this.#savepoints = new Savepoints(onViolation)
    const query = (...given: unknown[]) =>
      inTurn(this.#savepoints, this, callbackOf(given), () => Reflect.apply(client.query, client, given))
    Object.assign(this, { query })
    this.connect = connectTo(client, this.#savepoints)
  }

  /** @throws SluiceError TRANSACTION_CONTROL if a transaction of the pool has begun and not ended */
  requireEnded(): void {
    this.#savepoints.requireEnded()
  }
}

type Connected = (error: Error | undefined, client: pg.PoolClient, done: () => void) => void
type Callback = (...results: unknown[]) => void

function connectTo(client: pg.PoolClient, savepoints: Savepoints): pg.Pool['connect'] {
  function connect(): Promise<pg.PoolClient>
  function connect(called: Connected): void
  function connect(called?: Connected): Promise<pg.PoolClient> | undefined {
    const lent = lend(client, savepoints)
    if (called === undefined) return Promise.resolve(lent)
    queueMicrotask(() => called(undefined, lent, () => undefined))
    return undefined
  }
  return connect
}

/** A client of the pool. It has events of its own, of which none comes: the loss of the connection is the batch's concern. */
function lend(client: pg.PoolClient, savepoints: Savepoints): pg.PoolClient {
  const query = (...given: unknown[]) => {
    const [config] = given
    const verb = verbOf(config)
    if (verb === undefined)
      return inTurn(savepoints, lent, callbackOf(given), () => Reflect.apply(client.query, client, given))
    return control(client, () => savepoints.stepFor(verb, lent), callbackOf(given))
  }
  const same = () => lent
  const own = {
    query,
    release: () => undefined,
    ...Object.fromEntries(LISTENING.map((name) => [name, same])),
    emit: () => false,
    listenerCount: () => 0,
  }
  const lent: pg.PoolClient = Object.create(client, Object.getOwnPropertyDescriptors(own))
  // Libraries note on it what they need.
  return lent
}

/** On the client of the batch, `removeAllListeners` would take away what keeps its loss from ending the process. */
const LISTENING = [
  'on',
  'once',
  'addListener',
  'prependListener',
  'prependOnceListener',
  'off',
  'removeListener',
  'removeAllListeners',
  'setMaxListeners',
] as const satisfies readonly (keyof pg.PoolClient)[]

function inTurn(savepoints: Savepoints, of: object, callback: Callback | undefined, send: () => unknown): unknown {
  try {
    savepoints.requireLast(of)
    return send()
  } catch (error) {
    return failed(error, callback)
  }
}

function control(client: pg.PoolClient, next: () => Step, callback: Callback | undefined): unknown {
  try {
    const { text, answered } = next()
    if (callback === undefined) return awaited(client.query(text), answered)
    return client.query(text, (error: unknown, ...results: unknown[]) => {
      answered(error)
      callback(error, ...results)
    })
  } catch (error) {
    return failed(error, callback)
  }
}

function failed(error: unknown, callback: Callback | undefined): unknown {
  if (callback === undefined) return Promise.reject(error)
  return queueMicrotask(() => callback(error))
}

const VERBS: readonly Verb[] = ['begin', 'commit', 'rollback']

/** With anything behind it, such as an isolation level, it is refused as on the client. */
const VERB = /^\s*(?:(?<begin>begin|start\s+transaction)|(?<commit>commit)|(?<rollback>rollback))\s*;?\s*$/i

function verbOf(config: unknown): Verb | undefined {
  const text = typeof config === 'object' && config !== null && 'text' in config ? config.text : config
  const found = typeof text === 'string' ? VERB.exec(text)?.groups : undefined
  return found && VERBS.find((verb) => found[verb] !== undefined)
}

function callbackOf([config, ...rest]: readonly unknown[]): Callback | undefined {
  const own = typeof config === 'object' && config !== null && 'callback' in config ? config.callback : undefined
  return [...rest, own].find((value): value is Callback => typeof value === 'function')
}

import pg from 'pg'
import { SluiceError } from '../../errors.ts'

/**
 * A pool with one connection, a handler's, for libraries that take a pool or begin transactions of their own: those become
 * savepoints. It waits for nothing and opens nothing.
 */
export class LentPool extends pg.Pool {
  /** @param onViolation the handler's writes must not be kept */
  constructor(client: pg.PoolClient, onViolation: (error: SluiceError) => void) {
    super()
    const savepoints = new Savepoints(onViolation)
    this.query = client.query.bind(client)
    this.connect = (called?: Connected) => {
      const lent = lend(client, savepoints)
      if (called === undefined) return Promise.resolve(lent)
      return queueMicrotask(() => called(undefined, lent, () => undefined)) as never
    }
  }
}

type Connected = (error: Error | undefined, client: pg.PoolClient, done: () => void) => void
type Callback = (...results: unknown[]) => void

/** A client of the pool. It has events of its own, of which none comes: the loss of the connection is the batch's concern. */
function lend(client: pg.PoolClient, savepoints: Savepoints): pg.PoolClient {
  const query = (...given: unknown[]) => {
    const [config] = given
    const verb = verbOf(config)
    if (verb === undefined) return Reflect.apply(client.query, client, given)
    return control(client, savepoints, verb, lent, callbackOf(given))
  }
  const none = () => lent
  const own = { query, release: () => undefined, on: none, once: none, off: none, removeListener: none }
  const lent: pg.PoolClient = Object.create(client, Object.getOwnPropertyDescriptors(own))
  // Libraries note on it what they need.
  return lent
}

function control(
  client: pg.PoolClient,
  savepoints: Savepoints,
  verb: Verb,
  of: object,
  callback: Callback | undefined,
): unknown {
  try {
    const text = savepoints.textFor(verb, of)
    return callback === undefined ? client.query(text) : client.query(text, callback)
  } catch (error) {
    if (callback === undefined) return Promise.reject(error)
    return queueMicrotask(() => callback(error))
  }
}

type Verb = 'begin' | 'commit' | 'rollback'

/** With anything behind it, such as an isolation level, it is refused as on the client. */
const VERB = /^\s*(begin|start\s+transaction|commit|rollback)\s*;?\s*$/i

function verbOf(config: unknown): Verb | undefined {
  const text = typeof config === 'object' && config !== null && 'text' in config ? config.text : config
  const [, verb] = (typeof text === 'string' && VERB.exec(text)) || []
  if (verb === undefined) return undefined
  return /^start/i.test(verb) ? 'begin' : (verb.toLowerCase() as Verb)
}

function callbackOf([config, ...rest]: readonly unknown[]): Callback | undefined {
  const own = typeof config === 'object' && config !== null && 'callback' in config ? config.callback : undefined
  return [...rest, own].find((value): value is Callback => typeof value === 'function')
}

/** The savepoints of a handler's pool, by the client that has set each. They end in the opposite order. */
class Savepoints {
  readonly #onViolation: (error: SluiceError) => void
  readonly #open: { readonly name: string; readonly of: object }[] = []
  #count = 0

  constructor(onViolation: (error: SluiceError) => void) {
    this.#onViolation = onViolation
  }

  /** @throws SluiceError TRANSACTION_CONTROL if it ends a transaction that is not the last one that has begun */
  textFor(verb: Verb, of: object): string {
    if (verb === 'begin') {
      this.#count += 1
      const name = `sluice_pool_${this.#count}`
      this.#open.push({ name, of })
      return `SAVEPOINT ${name}`
    }
    const last = this.#open.at(-1)
    // The client refuses what ends no transaction of the pool's.
    if (!this.#open.some((savepoint) => savepoint.of === of)) return verb
    if (last?.of !== of) throw this.#overlap(verb)
    this.#open.pop()
    const release = `RELEASE SAVEPOINT ${last.name}`
    return verb === 'commit' ? release : `ROLLBACK TO SAVEPOINT ${last.name}; ${release}`
  }

  #overlap(verb: Verb): SluiceError {
    const what =
      'tx.pool: expected the transaction that began last to end first, ' +
      `received ${verb.toUpperCase()} of an earlier one. It is one connection: run its transactions one after another`
    const error = new SluiceError('TRANSACTION_CONTROL', what)
    this.#onViolation(error)
    return error
  }
}

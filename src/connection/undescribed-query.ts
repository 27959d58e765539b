import type pg from 'pg'
import { OWN_PARSERS } from '../session/own-parsers.ts'
import type { Row } from '../table/statement.ts'
import { rowsOf } from './rows-of.ts'
import { type Answered, sendQuery } from './send-query.ts'

interface Undescribed {
  readonly text: string
  /** The names of the result's columns. All of them are strings. */
  readonly columns: readonly string[]
  readonly params: readonly unknown[]
}

/**
 * Sends a statement without asking for its columns, so that no parsers and no empty row are made for them each time.
 * For a result of one text that is half of the driver's own work.
 *
 * @param client one that {@link takesUndescribed}
 */
export async function queryUndescribed(
  client: Pick<pg.ClientBase, 'query'>,
  statement: Undescribed,
): Promise<readonly Row[]> {
  try {
    return await new Promise((resolve, reject) => {
      sendQuery(
        client,
        (callback) => new UndescribedQuery(statement, callback),
        (error, result) => (error ? reject(error) : resolve(rowsOf(result))),
      )
    })
  } catch (error) {
    // As the driver does: the stack of the server's answer does not show who sent the statement.
    if (error instanceof Error) Error.captureStackTrace(error)
    throw error
  }
}

/**
 * Whether this is the driver's own client, which takes queries of other classes, such as those of pg-cursor. These do
 * not count:
 *
 * - a class that extends it, or an object that wraps it: it may expect a promise;
 * - the client of pg-native: it has no protocol;
 * - a client that pipelines: it refuses such queries;
 * - one that asks for binary results: a copy of the query would get them;
 * - one from before pg 8.21: not tested.
 */
export function takesUndescribed(client: object): boolean {
  const Driver: unknown = Reflect.get(client, 'constructor')
  if (typeof Driver !== 'function' || !Object.hasOwn(Driver, 'Query')) return false
  if (Reflect.get(client, 'query') !== Driver.prototype.query) return false
  const connection: unknown = Reflect.get(client, 'connection')
  if (typeof Reflect.get(client, 'getTransactionStatus') !== 'function') return false
  return isProtocol(connection) && Reflect.get(client, 'pipeline') !== true && Reflect.get(client, 'binary') !== true
}

/** What is used of the driver's connection. pg-cursor and pg-query-stream use the same. */
interface Protocol {
  readonly stream: { cork?(): void; uncork?(): void }
  parse(query: { readonly text: string }): void
  bind(config: { readonly values: readonly unknown[] }): void
  execute(config: object): void
  sync(): void
}

function isProtocol(connection: unknown): connection is Protocol {
  return (
    typeof connection === 'object' &&
    connection !== null &&
    METHODS.every((method) => typeof Reflect.get(connection, method) === 'function')
  )
}

const METHODS = ['parse', 'bind', 'execute', 'sync']

/** What the driver's client asks of a query. It calls back once. */
class UndescribedQuery implements pg.Submittable {
  readonly text: string
  /** With the parsers, for a copy of the query that the driver takes for a configuration. */
  readonly values: unknown[]
  readonly types = OWN_PARSERS
  /** The client puts another in its place for `query_timeout`, and so do libraries that trace queries. */
  callback: Answered
  readonly #columns: readonly string[]
  readonly #rows: Row[] = []

  constructor({ text, columns, params }: Undescribed, callback: Answered) {
    this.text = text
    this.values = [...params]
    this.callback = callback
    this.#columns = columns
  }

  submit(connection: unknown): void {
    // takesUndescribed has seen that it is one.
    const protocol = connection as Protocol
    // All in one packet.
    protocol.stream.cork?.()
    try {
      protocol.parse({ text: this.text })
      protocol.bind({ values: this.values })
      protocol.execute({})
      protocol.sync()
    } finally {
      protocol.stream.uncork?.()
    }
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const row: Record<string, unknown> = {}
    let at = 0
    for (const column of this.#columns) row[column] = fields[at++]
    this.#rows.push(row)
  }

  handleRowDescription(): void {}

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handleReadyForQuery(): void {
    this.callback(null, { rows: this.#rows, rowCount: this.#rows.length })
  }

  handleError(error: unknown): void {
    this.callback(error)
  }
}

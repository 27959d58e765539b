import type pg from 'pg'
import { OWN_PARSERS } from '../session/own-parsers.ts'
import type { Row } from '../table/statement.ts'
import { rowsOf } from './rows-of.ts'
import { type Answered, sendQuery } from './send-query.ts'

interface Undescribed {
  readonly text: string
  /** The names of the result's columns. All of them are texts. */
  readonly columns: readonly string[]
  readonly params: readonly unknown[]
}

/**
 * Sends a statement without asking what its columns are, and so without making parsers and an empty row for them anew
 * each time: half of what the driver itself does for a statement with a result of one text.
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
 * Whether this is the driver's own client, which takes queries of other classes, such as those of pg-cursor: not a class
 * that extends it or an object that stands before it, which may expect a promise; not the client of pg-native, which
 * has no protocol; not one that pipelines, which refuses them; not one that asks for binary results, which a copy of the
 * query would get; and none of before pg 8.21, which nobody has tried.
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
    // The client has one: that is what it was asked for.
    const protocol = connection as Protocol
    // All in one packet, and even if what is sent first throws.
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

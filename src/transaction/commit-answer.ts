import pg from 'pg'
import { stateSays } from '../basics/errors/sql-state.ts'
import { sendQuery } from '../connection/send-query.ts'
import { SluiceError } from '../errors.ts'

/** What the server answered to a query that begins with COMMIT. */
export interface CommitAnswer {
  /**
   * COMMIT's own command tag, if it was answered: `ROLLBACK` for an aborted transaction, which is no error to the
   * driver.
   */
  readonly tag: string | undefined
  /** Without a tag, COMMIT has failed. With one, what follows it has. */
  readonly error: unknown
}

/**
 * Sends a query that begins with COMMIT. What fails behind the COMMIT does not take it back, so the two are distinguished.
 */
export function sendCommit(client: pg.ClientBase, text: string): Promise<CommitAnswer> {
  return new Promise((resolve) => {
    let results: unknown
    sendQuery(
      client,
      (callback) => {
        const query: pg.Query = new pg.Query(text, (error, result) => {
          results = error ? Reflect.get(query, '_results') : result
          callback(error, result)
        })
        return query
      },
      (error) => resolve({ tag: firstTag(results), error }),
    )
  })
}

/**
 * The COMMIT_FAILED of an answer, or undefined if the server says that it has committed.
 *
 * @param before why the transaction was aborted, if that is known
 */
export function commitFailed({ tag, error }: CommitAnswer, before?: unknown): SluiceError | undefined {
  if (tag === 'COMMIT') return undefined
  if (tag !== undefined) {
    const what = `COMMIT: expected the command tag COMMIT, received ${tag}`
    return new SluiceError('COMMIT_FAILED', what, { cause: before })
  }
  const state = error instanceof pg.DatabaseError ? error.code : undefined
  const sentence =
    state !== undefined && !stateSays('maybeAfterCommit', state)
      ? 'The server refused COMMIT: nothing of the transaction has taken effect'
      : 'COMMIT was not answered: whether it took effect is unknown'
  return new SluiceError('COMMIT_FAILED', sentence, { cause: error })
}

/** The driver keeps a result for each command that was answered, but hands them out only if none has failed. */
function firstTag(results: unknown): string | undefined {
  const [first]: unknown[] = [results].flat()
  const tag: unknown = first instanceof Object ? Reflect.get(first, 'command') : undefined
  return typeof tag === 'string' ? tag : undefined
}

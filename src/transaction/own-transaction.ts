import type pg from 'pg'
import { hasSqlState } from '../basics/sql-state.ts'
import { startTimer } from '../basics/start-timer.ts'
import { unreachable } from '../connection/unreachable.ts'
import { SluiceError } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { BatchConnection } from './batch-connection.ts'

/**
 * Runs statements in a transaction of Sluice's own and commits it. Nothing else limits its time, so each answer has a
 * limit, after which the connection is cut. If that happens during COMMIT, it is not known whether it took effect. The
 * server ends a wait for a lock earlier, because a session that waits does not notice that its client has gone.
 *
 * @param lockMs how long a statement may wait for a lock. Default: half of `answerMs`.
 * @throws SluiceError UNREACHABLE, COMMIT_FAILED
 */
export async function inOwnTransaction<T>(
  pool: pg.Pool,
  work: (execute: Execute) => Promise<T>,
  answerMs = ANSWER_MS,
  lockMs = Math.ceil(answerMs / 2),
): Promise<T> {
  const connection = await BatchConnection.acquire(pool)
  const limit = startTimer(() => connection.break(`No answer within ${answerMs} ms`), answerMs)
  const execute: Execute = async (statement, params) => {
    const rows = await connection.execute(statement, params)
    limit.refresh()
    return rows
  }
  try {
    connection.begin(undefined, lockMs)
    const result = await work(execute)
    await connection.commit()
    return result
  } catch (error) {
    if (hasSqlState(error, READ_ONLY)) throw unreachable(error, 'The database takes no writes')
    throw connection.lost === undefined || error instanceof SluiceError ? error : unreachable(error)
  } finally {
    clearTimeout(limit)
    connection.release()
  }
}

/** {@link inOwnTransaction}, where the pool is known. */
export type InOwnTransaction = <T>(
  work: (execute: Execute) => Promise<T>,
  answerMs?: number,
  lockMs?: number,
) => Promise<T>

/** The server is a standby, or `default_transaction_read_only` is on. */
const READ_ONLY = '25006'

/** An INSERT of 32 MiB of JSON takes a second or two. */
const ANSWER_MS = 30_000

import { hasSqlState } from '../basics/errors/sql-state.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import { unreachable } from '../connection/unreachable.ts'
import { SluiceError } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { allAnswered } from './all-answered.ts'
import { BatchConnection } from './batch-connection.ts'
import type { Connections } from './check-out.ts'

/**
 * Runs statements in a transaction of Sluice's own and commits it. Nothing else limits its time, so each answer has a
 * limit, after which the connection is cut. If that happens during COMMIT, it is not known whether it took effect. The
 * server ends a wait for a lock earlier, because a session that waits does not notice that its client has gone.
 *
 * @param lockMs how long a statement may wait for a lock. Default: half of `answerMs`.
 * @throws SluiceError UNREACHABLE, COMMIT_FAILED
 */
export function inOwnTransaction<T>(
  pool: Connections,
  work: (execute: Execute) => Promise<T>,
  answerMs = ANSWER_MS,
  lockMs = Math.ceil(answerMs / 2),
): Promise<T> {
  return onConnection(pool, answerMs, async (connection, execute) => {
    connection.begin(undefined, lockMs)
    const result = await work(execute)
    await connection.commit()
    return result
  })
}

/** {@link inOwnTransaction}, where the pool is known. */
export type InOwnTransaction = <T>(
  work: (execute: Execute) => Promise<T>,
  answerMs?: number,
  lockMs?: number,
) => Promise<T>

/**
 * The same for one statement: BEGIN, the statement and COMMIT leave in one packet, and the server is waited for once. If the
 * statement fails, so does the transaction, with the statement's error. If the connection breaks, it is not known whether it took effect.
 *
 * @param send sends the statement at once
 * @throws SluiceError UNREACHABLE, COMMIT_FAILED
 */
export function inOnePacket<T>(
  pool: Connections,
  send: (execute: Execute) => Promise<T>,
  answerMs = ANSWER_MS,
): Promise<T> {
  return onConnection(pool, answerMs, async (connection, execute) => {
    const [answer, committed] = connection.together(() => {
      connection.begin(undefined, Math.ceil(answerMs / 2))
      return [send(execute), connection.commit()]
    })
    // The statement's error first: it is why COMMIT did not commit.
    await allAnswered([answer, committed])
    return answer
  })
}

/** {@link inOnePacket}, where the pool is known. */
export type InOnePacket = <T>(send: (execute: Execute) => Promise<T>) => Promise<T>

async function onConnection<T>(
  pool: Connections,
  answerMs: number,
  use: (connection: BatchConnection, execute: Execute) => Promise<T>,
): Promise<T> {
  const connection = await BatchConnection.acquire(pool)
  const limit = startTimer(() => connection.break(`No answer within ${answerMs} ms`), answerMs)
  const execute: Execute = async (statement, params) => {
    const rows = await connection.execute(statement, params)
    limit.refresh()
    return rows
  }
  try {
    return await use(connection, execute)
  } catch (error) {
    if (hasSqlState(error, READ_ONLY)) throw unreachable(error, 'The database takes no writes')
    throw connection.lost === undefined || error instanceof SluiceError ? error : unreachable(error)
  } finally {
    clearTimeout(limit)
    connection.release()
  }
}

/** The server is a standby, or `default_transaction_read_only` is on. */
const READ_ONLY = '25006'

/** An INSERT of 32 MiB of JSON takes a second or two. */
const ANSWER_MS = 30_000

import type pg from 'pg'
import type { Control } from '../connection/control.ts'
import { inSession } from '../connection/in-session.ts'
import { unregisterWorker } from '../table/worker/worker.ts'

interface Leaving {
  readonly control: Control
  readonly connection: pg.ClientConfig
  readonly connectTimeoutMs: number
  /** Undefined if it has never registered. */
  readonly workerId: number | undefined
  /** The stop takes too long: what the server has not answered is given up. */
  readonly signal: AbortSignal
}

/**
 * Deletes a worker that stops from `sluice.worker`, with its records of batches, and closes its control connection. If
 * that is down and waits for its next attempt, one more connection is opened for it: else the worker would look like a
 * crashed one until another worker finds it. If that fails too, it does.
 */
export async function signOff({ control, workerId, signal, ...address }: Leaving): Promise<void> {
  const done = workerId === undefined || (await succeeds(unregisterWorker(control.execute, workerId)))
  // First, because a connection that is being restored registers the worker again.
  await control.stop()
  if (done || signal.aborted) return
  const { connection, connectTimeoutMs } = address
  const limitMs = Math.min(connectTimeoutMs, LAST_TRY_MS)
  const limits = { connectionTimeoutMillis: limitMs, query_timeout: limitMs }
  const config = { ...connection, ...limits, application_name: 'sluice control' }
  await succeeds(inSession(config, (execute) => unregisterWorker(execute, workerId), signal))
}

/** For connecting, and again for the statement. A stop must not wait long for a server that does not answer. */
const LAST_TRY_MS = 2_000

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}

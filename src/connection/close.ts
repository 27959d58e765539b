import { startTimer } from '../basics/time/start-timer.ts'

/**
 * Ends a connection: says goodbye, and destroys the socket if the other side does not answer. pg itself would wait
 * without limit: on a half-open connection until the operating system stops resending, after a quarter of an hour.
 */
export async function close(end: () => Promise<void>, destroy: () => void): Promise<void> {
  const timer = startTimer(destroy, FAREWELL_MS)
  try {
    await end()
  } catch {
    destroy()
  } finally {
    clearTimeout(timer)
  }
}

/** How long the goodbye may take. */
const FAREWELL_MS = 1_000

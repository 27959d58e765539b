import { pause } from './backoff.ts'

/** What stopping may take where nothing is left to wait for but the server. */
export const STOP_MS = 5_000

/**
 * Waits for the work for so long, then cuts it, and then waits for a moment more: whatever else it does is not awaited.
 */
export async function within(ms: number, work: Promise<unknown>, cut: () => void): Promise<void> {
  const over = new AbortController()
  const ended = work.finally(() => over.abort())
  ended.catch(() => undefined)
  await Promise.race([ended, pause(ms, over.signal)])
  if (over.signal.aborted) return
  cut()
  await Promise.race([ended, pause(MOMENT_MS, over.signal)])
}

const MOMENT_MS = 1_000

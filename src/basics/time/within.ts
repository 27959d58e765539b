import { pause } from './pause.ts'

/** How long stopping may take when only the server is left to wait for. */
export const STOP_MS = 5_000

/** Waits `ms` for the work, then cuts it and waits a second more. What it still does after that is not awaited. */
export async function within(ms: number, work: Promise<unknown>, cut: () => void): Promise<void> {
  const over = new AbortController()
  const ended = work.finally(() => over.abort())
  ended.catch(() => undefined)
  await Promise.race([ended, pause(ms, over.signal)])
  if (over.signal.aborted) return
  cut()
  await Promise.race([ended, pause(LAST_MS, over.signal)])
}

const LAST_MS = 1_000

import { startTimer } from './start-timer.ts'

/** Waits, at most until the signal aborts; then it returns early, without an error. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = startTimer(done, ms)
    signal?.addEventListener('abort', done)
  })
}

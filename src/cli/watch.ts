import { once } from 'node:events'
import { pause } from '../connection/backoff.ts'

/**
 * Shows what `read` gives, again and again, until the process is interrupted. The pause between is `everyMs`, or ten times as
 * long as the reading took: what counts a large table keeps a server busy for a tenth of the time at most.
 */
export async function watch<T>(read: () => Promise<T>, show: (value: T) => void, everyMs: number): Promise<void> {
  const interrupt = new AbortController()
  const { signal } = interrupt
  const stop = () => interrupt.abort()
  const stopped = once(signal, 'abort')
  process.on('SIGINT', stop).on('SIGTERM', stop)
  try {
    while (!signal.aborted) {
      const startedMs = performance.now()
      const value = await Promise.race([read(), stopped.then(() => undefined)])
      const tookMs = performance.now() - startedMs
      if (value === undefined || signal.aborted) return
      show(value)
      await pause(pauseAfter(tookMs, everyMs), signal)
    }
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

export function pauseAfter(tookMs: number, everyMs: number): number {
  return Math.max(everyMs, tookMs * 10)
}

import { once } from 'node:events'
import { pause } from '../connection/backoff.ts'

/** Shows what `read` gives, again and again with a pause between, until the process is interrupted. */
export async function watch<T>(read: () => Promise<T>, show: (value: T) => void, everyMs: number): Promise<void> {
  const interrupt = new AbortController()
  const { signal } = interrupt
  const stop = () => interrupt.abort()
  const stopped = once(signal, 'abort')
  process.on('SIGINT', stop).on('SIGTERM', stop)
  try {
    while (!signal.aborted) {
      const value = await Promise.race([read(), stopped.then(() => undefined)])
      if (value === undefined || signal.aborted) return
      show(value)
      await pause(everyMs, signal)
    }
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ListenerOrder {
  readonly contestant: string
  readonly url: string
  readonly batchSize: number
  /** @default 1 */
  readonly inFlight?: number | undefined
  /** As in `ListenSpec`. */
  readonly atOnce?: number | undefined
  /** How long the handler sleeps. */
  readonly workMs: number
  readonly keepStarts: boolean
}

export interface ListenerReport {
  readonly settled: number
  /** The payload's number, and when its handler started, by the machine's monotonic clock. */
  readonly startedMs: readonly (readonly [number, number])[]
}

export interface Listener {
  /** Lets it finish what it has in hand. */
  stop(): Promise<ListenerReport>
}

/** Until everybody has seen that there is nothing and waits. */
const CALM_MS = 500

/** More than any of them takes to end what it has in hand. */
const LONGEST_STOP_MS = 60_000

/** Starts a consumer in another process, and waits until it is idle. */
export async function startListener(order: ListenerOrder): Promise<Listener> {
  const child = fork(new URL('./listener-process.ts', import.meta.url))
  child.send(order)
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The listening process ended by itself, with exit code ${code}`)
  })
  ended.catch(() => undefined)
  await Promise.race([once(child, 'message'), ended])
  await sleep(CALM_MS)
  return {
    stop: async () => {
      const report = once(child, 'message')
      child.send('stop')
      setTimeout(() => child.kill('SIGKILL'), LONGEST_STOP_MS).unref()
      const [answer] = await Promise.race([report, ended])
      return answer as ListenerReport
    },
  }
}

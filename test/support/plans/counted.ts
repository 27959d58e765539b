import { onTestFinished, vi } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { LONGEST_WITHOUT_CLAIM_MS } from '../../../src/wake-up/wake-ups.ts'
import type { TestDatabase } from '../servers/database.ts'
import { test as base, startTestSluice } from '../sluice.ts'
import { WireLog } from './wire-log.ts'

export type Flush = readonly string[]

/**
 * The work that is given a share of the time and has no fixed number: the look over the queue, which goes in the flush
 * of a claim, and the pass of the reaper before a record.
 */
const BY_SHARE_OF_TIME = ['queue_scan', 'worker_reap']

/** A Sluice whose every byte is seen, and for which time stands still unless the test moves it. */
export interface Counted {
  readonly sluice: Sluice
  readonly wire: WireLog
  /** What the connections of an application have sent since the last `clear`, without what is given a share of the time. */
  flushes(application: Application): Promise<readonly Flush[]>
  /** The flushes in which the statement was sent. */
  flushesWith(application: Application, statement: string): Promise<readonly Flush[]>
  clear(): Promise<void>
  /** Lets this much time pass, in steps, and waits after each until the server has answered all that it brought about. */
  pass(ms: number): Promise<void>
}

type Application = 'sluice' | 'sluice control' | 'sluice listener'

/**
 * `test` with a Sluice that has started and is counted. The clocks and timers of the process are the test's: no poll,
 * no heartbeat and no tidying up comes by itself, whatever the machine is doing, and nothing is waited for.
 */
export const test = base.extend('counted', async ({ database }) => startCounted(database))

async function startCounted(database: TestDatabase): Promise<Counted> {
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  vi.spyOn(Math, 'random').mockReturnValue(0)
  onTestFinished(() => void vi.restoreAllMocks())
  const wire = new WireLog()
  const sluice = startTestSluice(database, { connection: wire.connection(database.url) })
  await sluice.start()
  // The listener comes up by itself, where nothing is claimed after this time. Its self-test is a notification, upon which the settings
  // are read: all of it belongs to the start. Nothing is asked of the server while that is on its way, so it would count as quiet.
  await vi.advanceTimersByTimeAsync(LONGEST_WITHOUT_CLAIM_MS)
  await wire.notified('sluice listener')
  const counted: Counted = {
    sluice,
    wire,
    async flushes(application) {
      await wire.quiet()
      const without = (flush: Flush) => flush.filter((sent) => !BY_SHARE_OF_TIME.includes(sent))
      return wire
        .flushes(application)
        .map(without)
        .filter((flush) => flush.length > 0)
    },
    async flushesWith(application, statement) {
      await wire.quiet()
      return wire.flushes(application).filter((flush) => flush.includes(statement))
    },
    async clear() {
      await wire.quiet()
      wire.clear()
    },
    async pass(ms) {
      for (let passed = 0; passed < ms; passed += STEP_MS) {
        await vi.advanceTimersByTimeAsync(STEP_MS)
        await wire.quiet()
      }
    },
  }
  await counted.clear()
  return counted
}

const STEP_MS = 100

/** The list so many times. */
export function times<T>(count: number, items: readonly T[]): readonly T[] {
  return Array.from({ length: count }, () => items).flat()
}

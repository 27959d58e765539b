import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Writer } from '../contestant.ts'
import { monotonicMs } from './monotonic.ts'

/** When messages are due to be sent, whatever becomes of those before them. */
export interface Schedule {
  /** By the machine's monotonic clock. */
  readonly fromMs: number
  readonly perSecond: number
  readonly messages: number
}

/** How long it goes on with what is due and not sent when the schedule is over. */
const OVERTIME_MS = 1_000

/**
 * Sends each message when it is due, in a transaction of its own, by the first writer that is free. Returns when each was
 * sent; those that were not sent when the overtime was over are missing at its end.
 */
export async function sendOnSchedule(writers: readonly Writer[], schedule: Schedule): Promise<readonly number[]> {
  const sender = new Sender(writers)
  const clock = new Worker(new URL('./schedule-clock.ts', import.meta.url), { workerData: schedule })
  const over = new Promise<void>((resolve, reject) => {
    clock.on('message', (due: number) => sender.due(due))
    clock.once('error', reject)
    clock.once('exit', () => resolve())
  })
  await over
  await Promise.race([sender.idle(), sleep(OVERTIME_MS, undefined, { ref: false })])
  sender.stop()
  await sender.idle()
  return sender.sentMs
}

/** When the n-th message of a schedule is due, counted from 0. */
export function dueMs({ fromMs, perSecond }: Schedule, n: number): number {
  return fromMs + (n * 1_000) / perSecond
}

class Sender {
  readonly sentMs: number[] = []
  readonly #free: Writer[]
  readonly #writers: number
  #due = 0
  #idle = Promise.withResolvers<void>()

  constructor(writers: readonly Writer[]) {
    this.#free = [...writers]
    this.#writers = writers.length
  }

  /** So many are due by now. */
  due(messages: number): void {
    this.#due = messages
    this.#send()
  }

  /** No more are sent. */
  stop(): void {
    this.#due = 0
  }

  /** Resolves when nothing is due and nothing under way. */
  idle(): Promise<void> {
    this.#idle = Promise.withResolvers()
    this.#tellIdle()
    return this.#idle.promise
  }

  #send(): void {
    while (this.sentMs.length < this.#due) {
      const writer = this.#free.pop()
      if (writer === undefined) return
      void this.#sendOne(writer)
    }
  }

  async #sendOne(writer: Writer): Promise<void> {
    const n = this.sentMs.push(monotonicMs()) - 1
    await writer.enqueue({ n })
    this.#free.push(writer)
    this.#send()
    this.#tellIdle()
  }

  #tellIdle(): void {
    if (this.#free.length === this.#writers && this.sentMs.length >= this.#due) this.#idle.resolve()
  }
}

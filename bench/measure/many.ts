import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Measured, SampleContext } from '../cell.ts'

export interface ConsumerOrder {
  readonly contestant: string
  readonly url: string
  readonly batchSize: number
  readonly inFlight: number
}

/** How many messages a process has settled so far. */
export interface ConsumerReport {
  readonly settled: number
}

export interface ManySpec extends Pick<ConsumerOrder, 'batchSize' | 'inFlight'> {
  readonly processes: number
  /** How many messages wait. */
  readonly filled: number
  /** How long all consume before the clock starts, and how long it runs then. Both end when few messages are left. */
  readonly warmUpMs: number
  readonly windowMs: number
}

/** Messages per second that so many processes settle together, while there are more. */
export async function measureMany({ contestant, url }: SampleContext, spec: ManySpec): Promise<Measured> {
  const { batchSize, inFlight } = spec
  const order: ConsumerOrder = { contestant: contestant.name, url, batchSize, inFlight }
  const consumers = await Promise.all(Array.from({ length: spec.processes }, () => Consumer.start(order)))
  const settled = () => consumers.reduce((sum, consumer) => sum + consumer.settled, 0)
  for (const consumer of consumers) consumer.go()
  await until(() => settled() > 0, LONGEST_START_MS)
  await until(() => settled() >= spec.filled / 3, spec.warmUpMs)
  const [from, before] = [performance.now(), settled()]
  await until(() => settled() >= spec.filled * 0.9, spec.windowMs)
  const perSecond = ((settled() - before) / (performance.now() - from)) * 1_000
  await Promise.all(consumers.map((consumer) => consumer.stop()))
  return { metrics: { perSecond }, left: spec.filled - settled() }
}

/** Thirty-two processes load and connect one after another on two cores. */
const LONGEST_START_MS = 60_000

async function until(reached: () => boolean, mostMs: number): Promise<void> {
  const end = performance.now() + mostMs
  while (!reached() && performance.now() < end) await sleep(10)
}

class Consumer {
  readonly #child: ChildProcess
  settled = 0

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (report: ConsumerReport) => {
      this.settled = report.settled
    })
  }

  /** Resolves when its code is loaded. */
  static async start(order: ConsumerOrder): Promise<Consumer> {
    const child = fork(new URL('./consumer-process.ts', import.meta.url))
    const consumer = new Consumer(child)
    child.send(order)
    await Promise.race([once(child, 'message'), endedEarly(child)])
    return consumer
  }

  go(): void {
    this.#child.send('go')
  }

  /** Lets it finish what it has in hand. */
  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.send('stop')
    await ended
  }
}

async function endedEarly(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit')
  throw new Error(`A consuming process ended by itself, with exit code ${code}`)
}

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Measured, SampleContext, Size } from '../cell.ts'
import { percentile } from '../statistics.ts'
import { type MeasureDrainSpec, startConsumer } from './drain.ts'
import { Settled } from './settled.ts'
import { TableSize } from './table-size.ts'

/** How long a sample lasts, and of how long each point of its pictures is. */
export const LASTS_MS: Size = { full: 600_000, quick: 3_000 }
export const POINT_MS: Size = { full: 10_000, quick: 500 }

/** A consumer always finds at least so many messages; they come so many at a time. */
const BACKLOG: Size = { full: 100_000, quick: 5_000 }
const PORTION: Size = { full: 50_000, quick: 2_500 }
const LOOK_EVERY_MS = 20

/** Messages per second while a backlog is kept full for ten minutes, and how much room the tables take meanwhile. */
export async function measureEndurance(
  context: SampleContext,
  spec: Pick<MeasureDrainSpec, 'leased' | 'groups'>,
): Promise<Measured> {
  const { contestant, url } = context
  const settled = new Settled()
  const feeder = new Feeder(context, spec, settled)
  await feeder.start()
  const consumer = await startConsumer(contestant, url, {
    batchSize: 100,
    inFlight: 4,
    work: 'nothing',
    ...spec,
    onSettled: (messages) => settled.add(messages),
  })
  const { rates, sizes } = await watch(context, settled)
  await feeder.stop()
  await consumer.stop()
  // Halves: a checkpoint takes a fifth of a minute's rate.
  const half = Math.floor(rates.length / 2)
  return {
    metrics: {
      perSecond: percentile(rates, 50),
      slowest: Math.min(...rates),
      secondOverFirst: percentile(rates.slice(-half), 50) / percentile(rates.slice(0, half), 50),
      size: Math.max(...sizes),
    },
    series: rates,
    pictures: { size: sizes },
    left: feeder.filled - settled.count,
  }
}

async function watch(context: SampleContext, settled: Settled) {
  await using tables = await TableSize.of(context)
  const rates: number[] = []
  const sizes: number[] = []
  const end = performance.now() + LASTS_MS[context.scale]
  let [from, before] = [performance.now(), settled.count]
  while (performance.now() < end) {
    await sleep(from + POINT_MS[context.scale] - performance.now())
    const [now, count] = [performance.now(), settled.count]
    rates.push(((count - before) / (now - from)) * 1_000)
    sizes.push(await tables.read())
    ;[from, before] = [now, count]
  }
  return { rates, sizes }
}

/** Puts in a portion whenever too little is left. */
class Feeder {
  readonly #context: SampleContext
  readonly #groups: number | undefined
  readonly #settled: Settled
  readonly #client: pg.Client
  #running: Promise<void> | undefined
  #stopped = false
  filled = 0

  constructor(context: SampleContext, { groups }: Pick<MeasureDrainSpec, 'groups'>, settled: Settled) {
    this.#context = context
    this.#groups = groups
    this.#settled = settled
    this.#client = new pg.Client(context.url)
  }

  async start(): Promise<void> {
    await this.#client.connect()
    await this.#fill()
    await this.#fill()
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
    await this.#client.end()
  }

  async #run(): Promise<void> {
    const { scale } = this.#context
    while (!this.#stopped) {
      if (this.filled - this.#settled.count < BACKLOG[scale]) await this.#fill()
      else await sleep(LOOK_EVERY_MS)
    }
  }

  async #fill(): Promise<void> {
    const { contestant, scale } = this.#context
    const messages = PORTION[scale]
    const log = this.#groups === undefined ? undefined : { groups: this.#groups, inFlight: 4 }
    await contestant.fill(this.#client, { messages, ...(log && { log }) })
    this.filled += messages
  }
}

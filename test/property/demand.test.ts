import fc from 'fast-check'
import { expect } from 'vitest'
import { handleDeliveries } from '../../src/rx/handle-deliveries.ts'
import type { Sluice } from '../../src/sluice.ts'
import { LockedSampler } from '../support/plans/locked-sampler.ts'
import { untilEmpty } from '../support/rows/rows.ts'
import { fateOf, Player, type Scripted, scripted } from '../support/scenario.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { startTestSluice, test } from '../support/sluice.ts'

const MOST_ATTEMPTS = 3
const OPTIONS = { maxAttempts: MOST_ATTEMPTS, retry: { kind: 'fixed', delay: 0 }, timeout: '20s' } as const

const LENGTH = { minLength: 1, maxLength: 25, size: 'max' } as const
const messages = fc.oneof(fc.array(scripted, LENGTH), fc.array(scripted.map(atOnceWithoutKey), LENGTH))
/** To shrink on a server takes long: a failure tells its seed at once. */
const RUNS = { numRuns: 20, endOnFailure: true }

test('P3: a pipeline locks what it demands at most, and each message ends once, as it should', async ({ database }) => {
  const sluice = await start(database)
  const options = fc.record({
    concurrency: fc.integer({ min: 1, max: 4 }),
    batchSize: fc.integer({ min: 1, max: 6 }),
    ordered: fc.boolean(),
  })
  const property = fc.asyncProperty(messages, options, async (scripts, { concurrency, batchSize, ordered }) => {
    const queue = nextQueue()
    const player = new Player(scripts)
    const ids = await put(sluice, queue, scripts)
    const pipeline = sluice.pipeline(queue, { ...OPTIONS, concurrency, batchSize, ordered }).handle(player.handle)
    await using sampler = new LockedSampler(database, queue)
    const subscription = pipeline.subscribe()
    await untilEmpty(database, queue)
    await subscription.drain()
    const strays = straysOf(scripts, ordered)
    expect(sampler.most).toBeLessThanOrEqual(concurrency * batchSize + strays)
    expect(sampler.mostByOne).toBeLessThanOrEqual(batchSize + strays)
    expect(player.mostRunning).toBeLessThanOrEqual(concurrency)
    await check(database, queue, scripts, ids, player, ordered)
  })
  await fc.assert(property, RUNS)
})

test('P3: so do deliveries', async ({ database }) => {
  const sluice = await start(database)
  const options = fc
    .record({ demand: fc.integer({ min: 1, max: 8 }), share: fc.integer({ min: 1, max: 8 }) })
    .map(({ demand, share }) => ({ demand, batchSize: Math.min(demand, share) }))
  const concurrency = fc.constantFrom(undefined, 1, 2)
  const property = fc.asyncProperty(messages, options, concurrency, async (scripts, { demand, batchSize }, most) => {
    const queue = nextQueue()
    const player = new Player(scripts)
    const ids = await put(sluice, queue, scripts)
    const deliveries = sluice.deliveries(queue, { ...OPTIONS, demand, batchSize })
    await using sampler = new LockedSampler(database, queue)
    const subscription = deliveries
      .pipe(handleDeliveries(player.handle, most === undefined ? {} : { concurrency: most }))
      .subscribe()
    await untilEmpty(database, queue)
    subscription.unsubscribe()
    const strays = straysOf(scripts, false)
    expect(sampler.most).toBeLessThanOrEqual(demand + strays)
    expect(sampler.mostByOne).toBeLessThanOrEqual(batchSize + strays)
    expect(player.mostRunning).toBeLessThanOrEqual(most ?? demand)
    await check(database, queue, scripts, ids, player, false)
  })
  await fc.assert(property, RUNS)
})

/** Messages without a key that are done with their first call. */
function atOnceWithoutKey(message: Scripted): Scripted {
  return message.key === null ? { ...message, script: message.script.slice(-1) } : message
}

/**
 * How many messages may be locked by a batch that did not take them: those postponed in no order, if that happens
 * between the snapshot of its claim and their rows. test/integration/claim/excess.test.ts shows it.
 */
function straysOf(scripts: readonly Scripted[], ordered: boolean): number {
  return ordered ? 0 : scripts.filter(({ key, script }) => key === null && script.length > 1).length
}

let queues = 0

function nextQueue(): string {
  queues += 1
  return `demand.${queues}`
}

async function start(database: TestDatabase): Promise<Sluice> {
  await database.sql('CREATE TABLE IF NOT EXISTS effect (message_id bigint NOT NULL)')
  const sluice = startTestSluice(database, { pollInterval: 200 })
  await sluice.start()
  return sluice
}

/** Enqueues one message per script: its payload is its place. */
function put(sluice: Sluice, queue: string, scripts: readonly Scripted[]): Promise<string[]> {
  return sluice.enqueueMany(
    sluice.ownTransaction,
    queue,
    scripts.map(({ key, priority, maxAttempts }, payload) => ({
      payload,
      priority,
      maxAttempts,
      orderingKey: key ?? undefined,
    })),
  )
}

async function check(
  database: TestDatabase,
  queue: string,
  scripts: readonly Scripted[],
  ids: readonly string[],
  player: Player,
  ordered: boolean,
): Promise<void> {
  const fates = scripts.map((script) => fateOf(script, MOST_ATTEMPTS))
  expect(fates.map((_, at) => player.callsOf(at).map(({ attempt }) => attempt))).toEqual(
    fates.map(({ attempts }) => attempts),
  )
  const dead = await database.sql<{ id: string; attempt: number }>(
    'SELECT d.id::text AS id, d.attempt FROM sluice.dead_letters d WHERE d.queue = $1 ORDER BY d.id',
    [queue],
  )
  const wanted = ids.flatMap((id, at) => (fates[at]?.diesAt === undefined ? [] : [{ id, attempt: fates[at].diesAt }]))
  expect(dead).toEqual(wanted)
  const effects = await database.sql<{ id: string; count: number }>(
    'SELECT message_id::text AS id, count(*)::integer AS count FROM effect WHERE message_id = ANY ($1::bigint[]) GROUP BY 1',
    [ids],
  )
  const counts = new Map(effects.map(({ id, count }) => [id, count]))
  expect(ids.map((id) => counts.get(id) ?? 0)).toEqual(fates.map((fate) => fate.effects))
  const sequences = new Set(scripts.map(({ key }) => key).filter((key) => key !== null || ordered))
  for (const key of sequences) {
    const calls = player.calls.map(({ at }) => at).filter((at) => scripts[at]?.key === key)
    expect(calls).toEqual(calls.toSorted((a, b) => a - b))
  }
}

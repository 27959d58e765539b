import { expect, inject } from 'vitest'
import { type Counted, test } from '../support/plans/counted.ts'
import { setQueueColumns } from '../support/rows/queue-settings.ts'
import { emptyBuckets, putOfTenants } from '../support/rows/tenants.ts'

/** What an idle process sends in a minute, whatever the number of its queues and runners. */
const IDLE_MINUTE = {
  'sluice control': {
    // One per second for all queues; in earnest up to a fifth less.
    poll: 60,
    worker_reap: 2,
    holds_orphaned: 1,
  },
  // The heartbeat.
  'sluice listener': { LISTEN: 1, UNLISTEN: 1 },
  sluice: {},
}

/** Before PostgreSQL 17 it is another statement. */
const ACK = inject('serverVersion') < 170_000 ? 'ack_by_ctid' : 'ack'

/** What a message sends on its way through a worker of one runner that sleeps, until it sleeps again. */
const ONE_MESSAGE = {
  // Each look that finds nothing ends with a ROLLBACK. The last is the one after the flag is raised. COMMIT begins the
  // second transaction as well.
  sluice: { BEGIN: 2, claim: 3, [ACK]: 1, COMMIT: 1, ROLLBACK: 2 },
  // A look for dead workers goes beside the first claim, and serves the next ones.
  'sluice control': { flag_lower: 1, worker_reap: 1, batch_record: 1, flag_raise: 1 },
  'sluice listener': {},
}
const ROUND_TRIPS = { sluice: 5, 'sluice control': 3 }

test('P5: an idle minute of a hundred queues is sixty polls and five other statements', async ({ counted }) => {
  for (let at = 0; at < 100; at++) consume(counted, `idle.${at}`, 2)
  await counted.pass(10_000)
  await counted.clear()
  await counted.pass(60_000)
  expect(await sentBy(counted)).toEqual(IDLE_MINUTE)
})

test('P5: an idle minute with leased pipelines has no other statements: the poll says whether a worker is dead', async ({
  counted,
  queue,
}) => {
  for (const name of [`${queue}.a`, `${queue}.b`]) {
    counted.sluice
      .pipeline(name, { mode: 'leased' })
      .handle(() => undefined)
      .start()
  }
  await counted.pass(10_000)
  await counted.clear()
  await counted.pass(60_000)
  expect(await sentBy(counted)).toEqual(IDLE_MINUTE)
})

test('P5: a message costs a sleeping worker eight round trips until it sleeps again', async ({
  counted,
  database,
  queue,
}) => {
  const committed = new Promise<void>((resolve) =>
    counted.sluice.events.subscribe(({ kind }) => kind === 'batch.committed' && resolve()),
  )
  consume(counted, queue, 1)
  await counted.pass(2_000)
  await counted.clear()
  await database.sql(`SELECT sluice.enqueue($1, '{}')`, [queue])
  await committed
  expect(await sentBy(counted)).toEqual(ONE_MESSAGE)
  for (const [application, most] of Object.entries(ROUND_TRIPS)) {
    const flushes = counted.wire.flushes(application)
    expect(flushes.length, JSON.stringify(flushes)).toBeLessThanOrEqual(most)
  }
})

test.for(['transactional', 'leased'] as const)(
  'P5: where tenants have limits and all waits behind a closed key, each look for messages is one claim, in %s mode',
  async (mode, { counted, database, queue }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 2 })
    await database.sql(
      `INSERT INTO sluice.message (queue, ordering_key, payload, due_at, attempt, failed_at, last_error, lease)
       VALUES ($1, 'k', '1', now() + interval '1 hour', 1, now(), 'no', 0)`,
      [queue],
    )
    await database.sql(`SELECT sluice.enqueue($1, '2', ordering_key => 'k')`, [queue])
    counted.sluice
      .pipeline(queue, { mode } as never)
      .handle(() => undefined)
      .start()
    await counted.pass(5_000)
    await counted.clear()
    await counted.pass(10_000)
    const { sluice, 'sluice control': control } = await sentBy(counted)
    expect(sluice).toMatchObject({ BEGIN: 10, ROLLBACK: 10 })
    expect(control).toMatchObject({ poll: 10, claim_prepare: 10 })
  },
)

test.for(['transactional', 'leased'] as const)(
  'P5: where 300 tenants wait for a token, each poll is followed by the two claims that look at all of them, in %s mode',
  async (mode, { counted, database, queue }) => {
    await setQueueColumns(database, queue, { tenant_rate: 1, tenant_rate_ms: 3_600_000 })
    // A poll reads the limit.
    await counted.pass(2_000)
    await putOfTenants(database, queue, 300)
    await emptyBuckets(database, queue)
    counted.sluice
      .pipeline(queue, { mode } as never)
      .handle(() => undefined)
      .start()
    await counted.pass(5_000)
    await counted.clear()
    await counted.pass(10_000)
    expect(await sentBy(counted)).toMatchObject({ 'sluice control': { poll: 10, claim_prepare: 20 } })
  },
)

function consume({ sluice }: Counted, queue: string, concurrency: number): void {
  sluice
    .pipeline(queue, { concurrency })
    .handle(() => undefined)
    .subscribe()
}

/** How often each connection has sent which statement; of several in one text, the first. */
async function sentBy({ wire }: Counted): Promise<Record<string, Record<string, number>>> {
  await wire.quiet()
  const applications = Object.keys(IDLE_MINUTE).map((application) => {
    const counts: Record<string, number> = {}
    for (const sent of wire.flushes(application).flat()) {
      const [name = ''] = sent.split(';')
      if (name !== 'queue_scan') counts[name] = (counts[name] ?? 0) + 1
    }
    return [application, counts] as const
  })
  return Object.fromEntries(applications)
}

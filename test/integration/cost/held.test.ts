import pg from 'pg'
import { describe, expect } from 'vitest'
import { Floors } from '../../../src/claim/floors.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import {
  claimSlots,
  claimWholeQueue,
  type OrderedClaim,
  WHOLE_QUEUE_SLOT,
} from '../../../src/table/claim/claim-ordered.ts'
import { MOST_WALKED } from '../../../src/table/claim/claim-slots.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { type Explained, explain, type PlanMode, recorded } from '../../support/plans/explain.ts'
import { STATISTICS, setStatistics } from '../../support/plans/statistics.ts'
import { bottomOf, keysOf } from '../../support/rows/claim-session.ts'
import { test as base } from '../../support/servers/undisturbed.ts'

const HELD = 100_000
const FREE = 200

/** As on PostgreSQL 18, with a little to spare. Each row that is taken is two, to find and to lock it. */
const CLAIM_OF_100 = 235
/** Two walks over 5,000 rows: 50 leaves, 80 pages. */
const WALK = 400

interface Crowd {
  readonly client: pg.Client
  readonly execute: Execute
  readonly slot: number
  /** As a process has learned them that has gone through the held rows of a queue. */
  readonly floors: Readonly<Record<string, Floors>>
  /** How many claims that took. */
  readonly claims: Readonly<Record<string, number>>
}

/** Queues with 200 messages of a free key each, behind nothing, behind 100,000 of one held key, and of a thousand. */
const test = base.extend('crowd', { scope: 'file' }, async ({ database }, { onCleanup }): Promise<Crowd> => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  const execute = executeOn(client)
  const { slot, same } = await keysOf(database)
  const { rows } = await client.query<{ key: string }>(
    `SELECT k.key FROM (SELECT 'held ' || n AS key FROM generate_series(1, 400000) n) k
     WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = $1 LIMIT 1000`,
    [slot],
  )
  const queues = { none: [], one: rows.slice(0, 1), thousand: rows } as const
  const learned = []
  for (const [queue, held] of Object.entries(queues)) {
    const keys = held.map(({ key }) => key)
    await fill(client, queue, keys, same[0])
    await ensureSlots(execute, queue, [slot, WHOLE_QUEUE_SLOT])
    const untilUs = (Date.now() + 3_600_000) * 1_000
    const holds = keys.map((orderingKey) => ({ slot, orderingKey, messageId: '1', untilUs }))
    if (holds.length > 0) await holdKeys(execute, queue, holds, 1)
    learned.push({ queue, ...(await learn(client, queue, slot)) })
  }
  return {
    client,
    execute,
    slot,
    floors: Object.fromEntries(learned.map(({ queue, floors }) => [queue, floors])),
    claims: Object.fromEntries(learned.map(({ queue, claims }) => [queue, claims])),
  }
})

async function fill(client: pg.Client, queue: string, held: readonly string[], free: string): Promise<void> {
  await client.query(
    `INSERT INTO sluice.message (queue, ordering_key, payload)
     SELECT $1, ($2::text[])[1 + n % cardinality($2::text[])], '{}' FROM generate_series(1, $3::integer) n`,
    [queue, held, held.length === 0 ? 0 : HELD],
  )
  await client.query(
    `INSERT INTO sluice.message (queue, ordering_key, payload) SELECT $1, $2, '{}' FROM generate_series(1, $3::integer)`,
    [queue, free, FREE],
  )
}

/** Claims, as a process does, until it finds what it may take. */
async function learn(client: pg.Client, queue: string, slot: number) {
  const floors = new Floors()
  floors.learn([], [slot])
  for (let claims = 1; ; claims += 1) {
    await client.query('BEGIN')
    const taken = await claimSlots(executeOn(client), queue, floors.slots(false), 100, floors.passed())
    await client.query('ROLLBACK')
    floors.observed(taken)
    if (taken.rows.length > 0) return { floors, claims }
    if (!taken.walks.some(({ partial }) => partial)) throw new Error('The claim ended before it found what it may take')
  }
}

const QUEUES = ['one', 'thousand'] as const

describe.for(QUEUES)('P6: behind 100,000 messages of held keys: %s', (queue) => {
  test('the claims of a process that has just begun read 5,000 rows each', async ({ crowd }) => {
    const walks = Math.ceil(HELD / (MOST_WALKED - 1))
    // And once more where a transaction has ended that ran when they looked.
    expect(crowd.claims[queue]).toBeGreaterThanOrEqual(walks)
    expect(crowd.claims[queue]).toBeLessThanOrEqual(walks * 3)
  })

  test('what a process remembers of them is small', async ({ crowd }) => {
    expect(crowd.floors[queue]!.passed().length).toBeLessThan(30)
    expect(crowd.floors.none!.passed()).toEqual([])
  })

  for (const statistics of STATISTICS) {
    for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
      test(`a claim, a sweep and a look touch as much as without them: ${statistics}, ${mode}`, async ({ crowd }) => {
        await setStatistics(crowd.client, statistics)
        for (const bottom of [false, true]) {
          const [without, behind] = [
            await claimed(crowd, 'none', mode, bottom),
            await claimed(crowd, queue, mode, bottom),
          ]
          expectAtMost(CLAIM_OF_100, without, 'a claim without held keys')
          // The thousand are 60 kB, and the row that is passed last is read again.
          expectAtMost(without.buffers + 60, behind, `a claim ${bottom ? 'from the bottom' : 'behind held keys'}`)
        }
        expectAtMost(40, await explained(crowd, mode, (on) => scanQueue(on, queue)), 'a look over the queue')
        expectAtMost(
          20,
          await explained(crowd, mode, (on) => claim(on, queue, bottomOf(5), 100)),
          'a claim without keys',
        )
      })

      test(`a claim that knows nothing of them reads 5,000 rows: ${statistics}, ${mode}`, async ({ crowd }) => {
        await setStatistics(crowd.client, statistics)
        const floors = [{ slot: crowd.slot, id: '0' }]
        const first = await explained(crowd, mode, (on) => claimSlots(on, queue, floors, 100))
        expectAtMost(WALK, first, 'the first claim')
        expect(first.buffers).toBeGreaterThan(100)
      })
    }
  }
})

test('a sequence that is held as a whole is not read at all', async ({ crowd: { client, execute } }) => {
  await client.query(
    `INSERT INTO sluice.message (queue, payload) SELECT 'sequence', '{}' FROM generate_series(1, 20000)`,
  )
  await ensureSlots(execute, 'sequence', [WHOLE_QUEUE_SLOT])
  const untilUs = (Date.now() + 3_600_000) * 1_000
  await holdKeys(execute, 'sequence', [{ slot: WHOLE_QUEUE_SLOT, orderingKey: '', messageId: '1', untilUs }], 1)
  const whole = (on: Execute) => claimWholeQueue(on, 'sequence', { slot: WHOLE_QUEUE_SLOT, id: '0' }, 100)
  const sent = await recorded(whole)
  expectAtMost(20, await explain(client, sent), 'a claim of a held sequence')
})

function claimed({ client, floors }: Crowd, queue: string, mode: PlanMode, bottom: boolean): Promise<Explained> {
  const known = floors[queue]!
  return explained(
    { client },
    mode,
    (on): Promise<OrderedClaim> => claimSlots(on, queue, known.slots(bottom), 100, known.passed()),
  )
}

async function explained(
  { client }: Pick<Crowd, 'client'>,
  mode: PlanMode,
  send: (execute: Execute) => Promise<unknown>,
): Promise<Explained> {
  return explain(client, await recorded(send), mode)
}

function expectAtMost(most: number, { buffers, plan }: Explained, what: string): void {
  expect(buffers, `${what}: expected at most ${most} buffers, received ${buffers}\n${plan}`).toBeLessThanOrEqual(most)
}

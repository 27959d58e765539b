import { describe, expect } from 'vitest'
import { type ClaimedRows, claim } from '../../../src/table/claim/claim.ts'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  type SlotPosition,
  WHOLE_QUEUE_SLOT,
} from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { bottomOf, type ClaimSession, idsOf, keysOf, lockedIds, put, test } from '../../support/rows/claim-session.ts'

/** What a planner might be talked into, by settings or by statistics. */
const PLANNERS: readonly (readonly [string, readonly string[]])[] = [
  ['as it likes', []],
  ['with nested loops only', ['enable_hashjoin', 'enable_mergejoin']],
  ['with hash joins at any price', ['enable_nestloop', 'enable_mergejoin']],
  ['with merge joins at any price', ['enable_nestloop', 'enable_hashjoin']],
  ['with sequential scans only', ['enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan']],
  ['with bitmaps', ['enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan']],
  ['without sorting', ['enable_sort', 'enable_incremental_sort']],
  ['without materializing', ['enable_material', 'enable_memoize']],
]

const LIMIT = 7

interface Kind {
  readonly name: string
  readonly key: (at: number) => string | null
  /** In the order in which the claim should take them. */
  readonly order: string
  /** The most messages of a slot. */
  readonly share?: number
  claim(execute: Execute, queue: string, limit: number): Promise<ClaimedRows>
}

const KINDS: readonly Kind[] = [
  {
    name: 'claim',
    key: () => null,
    order: 'm.priority, m.due_at, m.id',
    claim: (execute, queue, limit) => claim(execute, queue, bottomOf(0, 1, 2, 5), limit),
  },
  {
    name: 'claimSlots',
    key: (at) => `key ${at % 11}`,
    order: 'm.slot, m.id',
    claim: async (execute, queue, limit) => claimSlots(execute, queue, await slotsOf(execute, queue), limit),
  },
  {
    name: 'claimFreeSlots with a share',
    key: (at) => `key ${at % 11}`,
    order: 'm.slot, m.id',
    share: 3,
    claim: async (execute, queue, limit) =>
      claimFreeSlots(execute, queue, await slotsOf(execute, queue), limit, undefined, 3),
  },
  {
    name: 'claimSlots with a share',
    key: (at) => `key ${at % 11}`,
    order: 'm.slot, m.id',
    share: 3,
    claim: async (execute, queue, limit) =>
      claimSlots(execute, queue, await slotsOf(execute, queue), limit, [], undefined, {}, 3),
  },
  {
    name: 'claimWholeQueue',
    key: () => null,
    order: 'm.id',
    claim: (execute, queue, limit) => claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id: '0' }, limit),
  },
]

describe.for(KINDS)('P3: $name locks no more than it was asked for', (kind) => {
  test.for(PLANNERS)('by a planner that plans %s', async ([, disabled], { database, queue, begin }) => {
    const messages = Array.from({ length: 300 }, (_, at) => ({
      priority: at % 3,
      key: kind.key(at),
      dueInMs: at % 4 === 3 ? 60_000 : -1_000 * (1 + (at % 50)),
    }))
    await put(database, queue, messages)
    const session = await begin()
    await ensureSlots(session.execute, queue, [...Array(257).keys()])
    await session.commit()
    const expectedIds = (
      await database.sql<{ id: string }>(
        `SELECT m.id::text AS id FROM (
           SELECT m.*, row_number() OVER (PARTITION BY m.slot ORDER BY m.id) AS place FROM sluice.message m
           WHERE m.queue = $1 AND m.due_at <= clock_timestamp()
         ) m WHERE m.place <= $2 ORDER BY ${kind.order}`,
        [queue, kind.share ?? messages.length],
      )
    ).map(({ id }) => id)
    for (const mode of ['force_custom_plan', 'force_generic_plan']) {
      await configure(session, [...disabled.map((setting) => `${setting} = off`), `plan_cache_mode = ${mode}`])
      const taken = idsOf(await kind.claim(session.execute, queue, LIMIT))
      expect(taken).toEqual(expectedIds.slice(0, LIMIT))
      expect(await lockedIds(database, queue)).toEqual(taken.toSorted((a, b) => Number(a) - Number(b)))
      await session.rollBack()
    }
  })
})

async function slotsOf(execute: Execute, queue: string): Promise<readonly SlotPosition[]> {
  const { slots } = await scanQueue(execute, queue)
  return slots.map((slot) => ({ slot, id: '0' }))
}

const ORDERED = [
  [
    'claimSlots',
    (...[execute, queue, slots, limit]: Parameters<typeof claimFreeSlots>) => claimSlots(execute, queue, slots, limit),
  ],
  ['claimFreeSlots', claimFreeSlots],
] as const

describe.for(ORDERED)('P1: %s leaves out the later messages of a key of which a session has locked one', ([, by]) => {
  test.for(PLANNERS)('by a planner that plans %s', async ([, disabled], { database, queue, begin }) => {
    const { slot, same } = await keysOf(database)
    const ids = await put(
      database,
      queue,
      Array.from({ length: 60 }, (_, at) => ({ key: same[at % 2]! })),
    )
    const [session, stranger] = [await begin(), await begin()]
    await ensureSlots(session.execute, queue, [slot])
    await session.commit()
    await stranger.client.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [ids[4]])
    const expectedIds = ids.slice(0, 20).filter((_, at) => at < 4 || at % 2 === 1)
    for (const mode of ['force_custom_plan', 'force_generic_plan']) {
      await configure(session, [...disabled.map((setting) => `${setting} = off`), `plan_cache_mode = ${mode}`])
      expect(idsOf(await by(session.execute, queue, [{ slot, id: '0' }], 20))).toEqual(expectedIds)
      await session.rollBack()
    }
  })
})

async function configure(session: ClaimSession, settings: readonly string[]): Promise<void> {
  for (const setting of settings) await session.client.query(`SET LOCAL ${setting}`)
}

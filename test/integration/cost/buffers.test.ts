import type pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { Claimer } from '../../../src/claim/claimer.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimSlots, claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { scanQueue } from '../../../src/table/claim/queue-scan.ts'
import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { pollQueues } from '../../../src/table/worker/wait.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { times } from '../../support/plans/counted.ts'
import { type Explained, explain } from '../../support/plans/explain.ts'
import { DEAD, type Send, type Target, test } from '../../support/plans/pinned.ts'
import { claimsOf, recordStatements, type SentStatement } from '../../support/plans/statements.ts'
import { bottomOf } from '../../support/rows/claim-session.ts'
import { acked, batchRecorded, buried, insertRow, postponed } from '../../support/rows/settled-rows.ts'
import { openPool } from '../../support/servers/pool.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const CLAIM_OF_100 = 112
const CLAIM_OF_100_KEYED = 230

interface Bound {
  readonly what: string
  readonly most: number
  /** Before PostgreSQL 17 each id of an array is a descent of its own, and an ack looks up the ctids first. */
  readonly mostBefore17?: number
  readonly send: Send
}

/** Buffers, as measured on PostgreSQL 18 with a little to spare: as many with 300,000 dead rows as without. */
const BOUNDS: readonly Bound[] = [
  // A descent of three levels, a leaf or two, and one buffer to lock each row.
  { what: 'a claim of 100', most: CLAIM_OF_100, send: (on, target) => claim(on, target.queue, [target.floor], 100) },
  { what: 'a claim of one', most: 8, send: (on, target) => claim(on, target.queue, [target.floor], 1) },
  // Two or three more for each priority that is empty.
  {
    what: 'a claim of 100 in ten priorities',
    most: 140,
    send: (on, target) => claim(on, target.queue, tenFloors(target), 100),
  },
  // And the slot's first live row, and the row of the slot. It finds the rows before it locks them: the page of each once more.
  {
    what: 'a claim of 100 of a key',
    most: CLAIM_OF_100_KEYED,
    send: (on, target) => claimSlots(on, target.queue, [target.slotFloor], 100),
  },
  // So does this one.
  { what: 'a claim of 100 of a whole queue', most: 220, send: (on, target) => claimWhole(on, target, target.ids[0]!) },
  // Each row twice: RETURNING, by which it is counted, fetches again what was deleted.
  { what: 'an ack of 100', most: 212, mostBefore17: 720, send: (on, target) => acked(on, target.queue, target.ids) },
  {
    what: 'an ack of 100 of a key',
    most: 212,
    mostBefore17: 720,
    send: (on, target) => acked(on, target.queue, target.keyedIds),
  },
  // Each row's old and new page, a descent of both of its indexes, and now and then a page more.
  { what: 'a postponement of 100', most: 1_800, send: (on, target) => postponed(on, target.queue, target.ids) },
  {
    what: 'a burial of 100',
    most: 1_260,
    mostBefore17: 1_610,
    send: (on, target) => buried(on, target.queue, target.ids),
  },
  { what: 'a hold of a key', most: 8, send: hold },
  {
    what: 'a record of a batch of 100',
    most: 14,
    mostBefore17: 220,
    send: (on, target) => batchRecorded(on, target.queue, target.ids),
  },
  // A function plans it: two more where its plan is not kept.
  { what: 'an enqueue', most: 14, send: (on, target) => insertMessages(on, target.queue, [insertRow()]) },
]

/** Once over the dead rows of one kind, their leaves and their pages: 5,200 buffers. */
const WALK = DEAD / 50

/** What begins at the bottom does walk them. */
const CLAIMS_FROM_THE_BOTTOM: readonly Bound[] = [
  { what: 'a claim', most: WALK, send: (on, { queue }) => claim(on, queue, bottomOf(5), 100) },
  {
    what: 'a claim of a key',
    most: WALK,
    send: (on, target) => claimSlots(on, target.queue, [{ ...target.slotFloor, id: '0' }], 100),
  },
  { what: 'a claim of a whole queue', most: WALK, send: (on, target) => claimWhole(on, target, '0') },
]

/** So do these two, which have no floors: once over the messages without a key, and once over those with one, and once more over one of them. */
const FLOORLESS: readonly Bound[] = [
  { what: 'a look over the queue', most: 3 * WALK, send: (on, { queue }) => scanQueue(on, queue) },
  {
    what: 'a poll',
    most: 3 * WALK,
    send: (on, { queue }) => pollQueues(on, 1, [queue], { consumed: [queue], dead: true }),
  },
]

/** Without dead rows they touch no more than this. */
const CLEAN_LOOK = 45

describe('P6: with 300,000 dead rows that a snapshot keeps', () => {
  for (const { what, most, mostBefore17 = most, send } of BOUNDS) {
    test(`${what} touches at most ${most} buffers, as without`, async ({ pinned }) => {
      for (const target of [pinned.clean, pinned.dead]) {
        for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
          const bound = pinned.serverVersion < 170_000 ? mostBefore17 : most
          expectAtMost(bound, await pinned.explain(send, target, mode), `${what} in the queue ${target.queue}, ${mode}`)
        }
      }
    })
  }

  test.for(CLAIMS_FROM_THE_BOTTOM)(
    '$what without a floor walks them, so these gates can fail',
    async ({ what, most, send }, { pinned }) => {
      const [clean, dead] = [await pinned.explain(send, pinned.clean), await pinned.explain(send, pinned.dead)]
      expectAtMost(most, dead, what)
      expect(dead.buffers, dead.plan).toBeGreaterThan(clean.buffers * 10)
    },
  )

  test.for(FLOORLESS)(
    '$what touches at most $most buffers, for it has no floor',
    async ({ what, most, send }, { pinned }) => {
      expectAtMost(CLEAN_LOOK, await pinned.explain(send, pinned.clean), `${what} without dead rows`)
      expectAtMost(most, await pinned.explain(send, pinned.dead), what)
    },
  )

  test('a thousand holds of keys in a slot add at most twenty buffers to its claims', async ({ pinned }) => {
    const { dead, execute } = pinned
    const send: Send = (on, target) => claimSlots(on, target.queue, [target.slotFloor], 100)
    const before = await pinned.explain(send, dead)
    for (let held = 0; held < 1_000; held++) await hold(execute, dead)
    expectAtMost(before.buffers + 20, await pinned.explain(send, dead), 'a claim of 100 of a key')
  })

  test('the first claims on new connections begin behind them, as those on the first do', async ({
    database,
    pinned: { client, dead, execute, serverVersion },
    skip,
  }) => {
    if (serverVersion < 150_000) skip('a server that cannot tell whether it is the same')
    const pool = openPool({ connectionString: database.url, maxUses: 1 })
    onTestFinished(() => pool.end())
    const plan = { queue: dead.queue, batchSize: 100, concurrency: 1, ordered: false }
    const claimer = new Claimer(plan, { execute })
    const sent = recordStatements()
    const lastClaim = (target: 'keyed' | 'unkeyed') =>
      claimsOf(sent, dead.queue).findLast(({ text }) => text.includes('FOR NO KEY UPDATE') === (target === 'keyed'))
    const floorOf = (claimed: SentStatement | undefined) => Number(/-?\d+/.exec(String(claimed?.values[2])))
    // A slot's floor needs two answers, and a sweep begins at the bottom.
    await waitFor(
      async () => {
        await claimOnce(pool, claimer)
        return floorOf(lastClaim('keyed')) === Number(dead.slotFloor.id) && floorOf(lastClaim('unkeyed')) > 0
      },
      { what: 'both kinds of claims to begin at their floors' },
    )
    for (const target of ['keyed', 'unkeyed'] as const) {
      const { text, values } = lastClaim(target)!
      const explained = await explain(client, { statement: { name: 'as sent', text }, params: values })
      const most = target === 'keyed' ? CLAIM_OF_100_KEYED : CLAIM_OF_100
      expectAtMost(most + 30, explained, `the first claim on a connection, ${target}`)
    }
  })

  test('a process walks them when it begins, and its later claims begin behind them', async ({ database, pinned }) => {
    const { client, dead, execute } = pinned
    const sent = recordStatements()
    const sluice = startTestSluice(database)
    const settled = await sluice
      .pipeline(dead.queue, { batchSize: 50 })
      .handle(() => undefined)
      .runOnce()
    expect(settled).toHaveLength(400)
    await insertMessages(execute, dead.queue, times(100, [insertRow()]))
    const unkeyed = claimsOf(sent, dead.queue).filter(({ text }) => !text.includes('FOR NO KEY UPDATE'))
    const explained = (claimed: SentStatement | undefined) =>
      explain(client, { statement: { name: 'as sent', text: claimed!.text }, params: claimed!.values })
    expect((await explained(unkeyed[0])).buffers).toBeGreaterThan(WALK / 2)
    // What this process has just handled is dead as well.
    expectAtMost(CLAIM_OF_100 + 20, await explained(unkeyed.at(-1)), 'the last claim of a process')
  })
})

/** One batch on a connection of its own, which is given back. */
async function claimOnce(pool: pg.Pool, claimer: Claimer): Promise<void> {
  const connection = await BatchConnection.acquire(pool)
  connection.begin()
  const { rows } = await claimer.take(connection, claimer.send(connection))
  claimer.release(rows)
  await connection.rollback()
  connection.release()
}

function expectAtMost(most: number, { buffers, plan }: Explained, what: string): void {
  expect(buffers, `${what}: expected at most ${most} buffers, received ${buffers}\n${plan}`).toBeLessThanOrEqual(most)
}

function tenFloors({ floor }: Target) {
  return Array.from({ length: 10 }, (_, priority) => ({ ...floor, priority }))
}

function claimWhole(execute: Execute, { queue }: Target, id: string) {
  return claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id }, 100)
}

/** Holds for an instant that has passed, so that no claim heeds it. */
function hold(execute: Execute, { queue, key, slotFloor, keyedIds }: Target): Promise<void> {
  return holdKeys(execute, queue, [{ slot: slotFloor.slot, orderingKey: key, messageId: keyedIds[0]!, untilUs: 1 }], 2)
}

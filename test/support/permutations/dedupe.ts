import { inject } from 'vitest'
import type { OnDuplicate } from '../../../src/message-options.ts'
import type { ClaimedRow, ClaimedRows } from '../../../src/table/claim/claim.ts'
import { leaseOf } from '../../../src/table/claim/lease.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { type EnqueueResult, insertDeduped } from '../../../src/table/enqueue/insert-deduped.ts'
import { DEFAULTS } from '../../../src/table/enqueue/insert-row.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { ackLeased, ackMessages, keepKeysLocked } from '../rows/write-settled.ts'
import { PAUSED_CLAIM } from '../twins/statements.ts'
import { executeAlone, type Target } from './claims.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Stage } from './stage.ts'

/** A message `old` with a dedupe key, and what has been done about the key. */
export interface KeyWorld {
  readonly queue: string
  readonly target: Target
  readonly claiming: Map<string, Promise<ClaimedRows>>
  readonly hands: Map<string, readonly ClaimedRow[]>
  /** What each session has done and not committed. */
  readonly open: Map<string, (() => void)[]>
  /** What was handled, in the order of the commits. */
  readonly handled: string[]
  /** Of those that have committed; `at`: in the order in which they had the key, in which a COMMIT may be told late. */
  readonly answers: { readonly content: string; readonly result: EnqueueResult; readonly at: number }[]
  cancelled: boolean
  /** Of the leased claim of this play. */
  readonly lease: string
}

type Step = PlayedStep<KeyWorld>

const VERSION = inject('serverVersion')
let counter = 0

const whenCommitted = (world: KeyWorld, name: string, then: () => void) =>
  world.open.set(name, [...(world.open.get(name) ?? []), then])

async function put(execute: Execute, { queue, target }: KeyWorld, content: string, onDuplicate: OnDuplicate) {
  const dedupe = { key: 'K', forMs: 3_600_000, onDuplicate }
  const row = { ...DEFAULTS, payload: JSON.stringify(content), orderingKey: target.key, isPlain: false, dedupe }
  return (await insertDeduped(execute, queue, row))!
}

/** Enqueues with the key. */
export const ask = (content: string, onDuplicate: OnDuplicate): Step => ({
  name: `asks for ${content}`,
  run: async (session, world) => {
    await session.client.query('BEGIN')
    const result = await put(session.execute(), world, content, onDuplicate)
    const at = ++counter
    whenCommitted(world, session.name, () => world.answers.push({ content, result, at }))
  },
})

/** Takes a snapshot, and stops before the scan. */
export const looks = (leased: boolean): Step => ({
  name: 'looks',
  run: async (session, { queue, target, claiming, lease: given }) => {
    await session.begin()
    const lease = leased ? { lease: given, ms: 600_000, serverVersion: VERSION } : undefined
    const claim = target.claim(session.execute(...PAUSED_CLAIM), queue, 2, lease)
    claim.catch(() => undefined)
    claiming.set(session.name, claim)
    await session.untilAtGate(claim)
  },
})

export const locks: Step = {
  name: 'locks',
  run: async (session, { queue, claiming, hands }) => {
    await session.openGate(queue)
    hands.set(session.name, (await claiming.get(session.name)!).rows)
  },
}

export const leases: Step = {
  name: 'leases',
  run: async (session, world) => {
    await locks.run(session, world)
    await session.commit()
  },
}

export const settles = (leased: boolean): Step => ({
  name: 'settles',
  run: async (session, world) => {
    const { queue, hands, handled, lease } = world
    const rows = hands.get(session.name) ?? []
    const ids = rows.map(({ id }) => id)
    if (leased) await session.begin()
    if (ids.length === 0) return
    if (leased)
      await ackLeased(
        session.execute(),
        queue,
        ids.map((id) => ({ id, lease })),
        VERSION,
      )
    else {
      const kept = ids.map((id) => ({ id, forMs: null }))
      await keepKeysLocked(session.execute(), queue, kept, VERSION)
      await ackMessages(session.execute(), queue, ids, VERSION)
    }
    whenCommitted(world, session.name, () => handled.push(...rows.map(({ payload }) => JSON.parse(payload) as string)))
  },
})

/** Removes the first message if nobody has it. */
export const cancels: Step = {
  name: 'cancels',
  run: async (session, world) => {
    await session.client.query('BEGIN')
    const { rowCount } = await session.client.query(
      `DELETE FROM sluice.message m WHERE m.ctid = ANY (ARRAY(
         SELECT o.ctid FROM sluice.message o WHERE o.queue = $1 AND coalesce(o.lease, 0) = 0 ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED
       ))`,
      [world.queue],
    )
    whenCommitted(world, session.name, () => {
      world.cancelled = rowCount === 1
    })
  },
}

export const commits: Step = {
  name: 'commits',
  run: async (session, { open }) => {
    await session.commit()
    for (const then of open.get(session.name) ?? []) then()
  },
}

export const rollsBack: Step = { name: 'rolls back', run: (session) => session.rollBack() }

/** Interleavings in a queue that begins with the message `old`. */
export function keyScenario(
  { database }: Stage,
  target: Target,
  policy: OnDuplicate,
  sessions: Scenario<KeyWorld>['sessions'],
): Scenario<KeyWorld> {
  const pausing = Object.entries(sessions).filter(([, steps]) => steps.some(({ name }) => name === 'looks'))
  return {
    sessions,
    prepare: async (queue, session) => {
      await Promise.all(pausing.map(([name]) => session(name).closeGate(queue)))
      const maps = { claiming: new Map(), hands: new Map(), open: new Map() }
      const world = { queue, target, ...maps, handled: [], answers: [], cancelled: false, lease: leaseOf(7, ++counter) }
      if (target.key !== null) await ensureSlots(executeAlone(database), queue, [target.slot])
      await put(executeAlone(database), world, 'old', policy)
      return world
    },
    wrong: async (world) => {
      const rows = await database.sql<{ content: string }>(
        `SELECT payload #>> '{}' AS content FROM sluice.message WHERE queue = $1 ORDER BY id`,
        [world.queue],
      )
      return wrongsOf(
        world,
        rows.map(({ content }) => content),
      )
    },
  }
}

/** What must not be: content that was taken and is neither handled nor there, a message too many, or none for an answer. */
function wrongsOf({ answers, handled, cancelled }: KeyWorld, left: readonly string[]): readonly string[] {
  const wrong: string[] = []
  const takenBy = answers.filter(({ result }) => result.outcome !== 'duplicate').toSorted((a, b) => a.at - b.at)
  const last = takenBy.at(-1)
  if (last !== undefined && !cancelled && ![...handled, ...left].includes(last.content)) {
    wrong.push(`${last.content} was ${last.result.outcome}, and is neither handled nor there`)
  }
  const added = answers.filter(({ result }) => result.outcome === 'added' || result.outcome === 'requeued').length
  const messages = handled.length + left.length + (cancelled ? 1 : 0)
  if (messages !== 1 + added) wrong.push(`${messages} messages of ${1 + added}: ${handled} handled, ${left} left`)
  if (new Set([...handled, ...left]).size < handled.length + left.length) wrong.push('a content twice')
  return wrong
}

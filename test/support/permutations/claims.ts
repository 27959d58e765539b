import { Floors } from '../../../src/claim/floors.ts'
import { type ClaimedRow, type ClaimedRows, claim } from '../../../src/table/claim/claim.ts'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  WHOLE_QUEUE_SLOT,
} from '../../../src/table/claim/claim-ordered.ts'
import type { Lease } from '../../../src/table/claim/lease.ts'
import { ensureSlots, scanQueue } from '../../../src/table/claim/queue-scan.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { bottomOf, idsOf, keysOf, put } from '../rows/claim-session.ts'
import { acked } from '../rows/settled-rows.ts'
import type { TestDatabase } from '../servers/database.ts'
import { PAUSED_CLAIM } from '../twins/statements.ts'
import { Ledger, type Seen } from './ledger.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Rewrite } from './rewrite.ts'
import type { PlayedSession, Stage } from './stage.ts'

/** Messages with or without a key, and how they are claimed. */
export interface Target {
  readonly name: string
  readonly key: string | null
  readonly slot: number
  readonly claim: (execute: Execute, queue: string, limit: number, lease?: Lease) => Promise<ClaimedRows>
}

export interface Targets {
  readonly unkeyed: Target
  readonly keyed: Target
  /** The same by the claim that leaves alone slots with held keys. */
  readonly free: Target
  /** The messages without a key, in order. */
  readonly whole: Target
}

/** An INSERT by hand may say any id. */
const LOWEST_ID = '-9223372036854775808'

export async function targetsOf(database: TestDatabase): Promise<Targets> {
  const { slot, same } = await keysOf(database)
  return {
    free: {
      name: 'free',
      key: same[0],
      slot,
      claim: (execute, queue, limit, lease) => claimFreeSlots(execute, queue, [{ slot, id: LOWEST_ID }], limit, lease),
    },
    whole: {
      name: 'whole',
      key: null,
      slot: WHOLE_QUEUE_SLOT,
      claim: (execute, queue, limit) => claimWholeQueue(execute, queue, { slot: WHOLE_QUEUE_SLOT, id: '0' }, limit),
    },
    unkeyed: {
      name: 'unkeyed',
      key: null,
      slot,
      claim: (execute, queue, limit, lease) => claim(execute, queue, bottomOf(5), limit, lease),
    },
    keyed: {
      name: 'keyed',
      key: same[0],
      slot,
      claim: (execute, queue, limit, lease) => claimSlots(execute, queue, [{ slot, id: LOWEST_ID }], limit, [], lease),
    },
  }
}

/** A queue with some messages of one target, and who has which of them in hand. */
export interface ClaimWorld {
  readonly queue: string
  readonly target: Target
  readonly ids: readonly string[]
  readonly ledger: Ledger
  readonly hands: Map<string, readonly ClaimedRow[]>
  /** Claims that stand at their pause. */
  readonly looks: Map<string, { readonly seen: Seen; readonly claiming: Promise<ClaimedRows> }>
}

export type ClaimStep = PlayedStep<ClaimWorld>

export interface Claims {
  readonly limit?: number
  /** How to claim, if not as the queue's target is claimed. */
  readonly by?: Target
  readonly twin?: readonly Rewrite[]
  /** In leased mode: the lease of a session's claim. */
  readonly lease?: (queue: string, session: string) => Lease
}

/** A claim in two steps: its snapshot, and what it locks. The session's gate must be closed. */
export function look({ limit = 2, twin = [], by, lease }: Claims = {}): ClaimStep {
  return {
    name: 'looks',
    run: async (session, { queue, target, ledger, looks }) => {
      await session.begin()
      const seen = ledger.sees()
      const execute = session.execute(...PAUSED_CLAIM, ...twin)
      const claiming = (by ?? target).claim(execute, queue, limit, lease?.(queue, session.name))
      claiming.catch(() => undefined)
      looks.set(session.name, { seen, claiming })
      await session.untilAtGate(claiming)
    },
  }
}

export const lock: ClaimStep = {
  name: 'locks',
  run: async (session, { queue, ledger, looks, hands }) => {
    await session.openGate(queue)
    const { seen, claiming } = looks.get(session.name)!
    const taken = await claiming
    ledger.claims(session.name, idsOf(taken), seen)
    hands.set(session.name, taken.rows)
  },
}

/** Takes without a pause. */
export function take(claims: Claims = {}): ClaimStep {
  return {
    name: 'takes',
    run: async (session, { queue, target, ledger, hands }) => {
      await session.begin()
      const seen = ledger.sees()
      const { twin = [], by = target, limit = 2, lease } = claims
      const taken = await by.claim(session.execute(...twin), queue, limit, lease?.(queue, session.name))
      ledger.claims(session.name, idsOf(taken), seen)
      hands.set(session.name, taken.rows)
    },
  }
}

export const ack: ClaimStep = {
  name: 'acks',
  run: async (session, { queue, ledger, hands }) => {
    const ids = inHand(hands, session)
    ledger.moves(session.name, ids, 'handled')
    if (ids.length > 0) await acked(session.execute(), queue, ids)
  },
}

export const commit: ClaimStep = {
  name: 'commits',
  run: async (session, { ledger }) => {
    ledger.commits(session.name)
    await session.commit()
  },
}

export const rollBack: ClaimStep = {
  name: 'rolls back',
  run: async (session, { ledger }) => {
    ledger.rollsBack(session.name)
    await session.rollBack()
  },
}

export const inOneStep = (...steps: readonly ClaimStep[]): ClaimStep => ({
  name: steps.map(({ name }) => name).join(' and '),
  run: async (session, world) => {
    for (const step of steps) await step.run(session, world)
  },
})

export function inHand(hands: ClaimWorld['hands'], { name }: PlayedSession): readonly string[] {
  return (hands.get(name) ?? []).map(({ id }) => id)
}

/** Interleavings in a queue that begins with so many due messages of a target. */
export function claimScenario(
  { database }: Stage,
  target: Target,
  count: number,
  sessions: Scenario<ClaimWorld>['sessions'],
): Scenario<ClaimWorld> {
  const pausing = Object.entries(sessions).filter(([, steps]) => steps.some(({ name }) => name === 'looks'))
  return {
    sessions,
    prepare: async (queue, session) => {
      await Promise.all(pausing.map(([name]) => session(name).closeGate(queue)))
      const ids = await put(
        database,
        queue,
        Array.from({ length: count }, () => ({ key: target.key })),
      )
      if (target.key !== null || target.slot === WHOLE_QUEUE_SLOT)
        await ensureSlots(executeAlone(database), queue, [target.slot])
      const ledger = new Ledger()
      ledger.has(ids, 'waiting', () => target.key)
      return { queue, target, ids, ledger, hands: new Map(), looks: new Map() }
    },
    wrong: (world) => accountsOf(database, world),
  }
}

/** What is wrong at the end: the table against the ledger, and what a sweep finds against what is due. */
export async function accountsOf(
  database: TestDatabase,
  { queue, target, ledger }: ClaimWorld,
): Promise<readonly string[]> {
  const tables = await database.sql<{ id: string; dead: boolean }>(
    `SELECT id::text AS id, false AS dead FROM sluice.message WHERE queue = $1
     UNION ALL SELECT id::text, true FROM sluice.dead_letter WHERE queue = $1`,
    [queue],
  )
  const there = (dead: boolean) => tables.filter((row) => row.dead === dead).map(({ id }) => id)
  const swept = idsOf(await sweep(executeAlone(database), queue, target))
  return [
    ...ledger.wrong,
    ...differences(ledger, 'the table', there(false), ledger.idsIn('waiting', 'later')),
    ...differences(ledger, 'the dead letters', there(true), ledger.idsIn('dead')),
    ...differences(ledger, 'a sweep', swept, ledger.due()),
  ]
}

/** The look over the queue, and the claim from the bottom, of a process that knows nothing yet. */
async function sweep(execute: Execute, queue: string, target: Target): Promise<ClaimedRows> {
  const floors = new Floors()
  const { priorities, slots } = await scanQueue(execute, queue)
  floors.learn(priorities, slots)
  return target.key === null
    ? claim(execute, queue, floors.priorities('bottom'), 100)
    : claimSlots(execute, queue, floors.slots(true), 100)
}

export function differences(
  ledger: Ledger,
  who: string,
  found: readonly string[],
  expected: readonly string[],
): readonly string[] {
  const missing = expected.filter((id) => !found.includes(id)).map((id) => `${who} has lost ${ledger.numberOf(id)}`)
  const extra = found.filter((id) => !expected.includes(id)).map((id) => `${who} still has ${ledger.numberOf(id)}`)
  return [...missing, ...extra]
}

/** Each statement in a transaction of its own. */
export function executeAlone({ sql }: TestDatabase): Execute {
  return ({ text }, params) => sql(text, params)
}

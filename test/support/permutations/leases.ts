import { hasSqlState } from '../../../src/basics/errors/sql-state.ts'
import {
  type ClaimStep,
  type Claims,
  type ClaimWorld,
  claimScenario,
  commit,
  inOneStep,
  lock,
  look,
  type Target,
  take,
} from './claims.ts'
import { leaseOf, register, SERVER_VERSION } from './lease-of.ts'
import { leaseAck } from './lease-settlements.ts'
import type { Scenario } from './permutations.ts'
import type { Stage } from './stage.ts'

/** A leased claim in two steps, and the settlement in a transaction of its own. */
export const leased = (claims?: Claims): readonly ClaimStep[] => [
  look({ ...claims, lease: leaseOf }),
  inOneStep(lock, leases),
  inOneStep(leaseAck(), commit),
]

/**
 * A leased claim without a pause. Before version 17 one that waited for a row to be moved does not find it by its ctid,
 * and fails as a whole.
 */
export const leaseAtOnce = (claims: Claims = {}): ClaimStep => ({
  name: 'leases at once',
  run: async (session, world) => {
    try {
      await take({ limit: 1, ...claims, lease: leaseOf }).run(session, world)
    } catch (error) {
      if (SERVER_VERSION >= 170_000 || !hasSqlState(error, UNSETTLED)) throw error
      return session.rollBack()
    }
    await leases.run(session, world)
  },
})

/** Before version 17 a leased claim fails, and is sent again, if a message has been changed since it began. */
export function mayFail(wrong: string): boolean {
  return SERVER_VERSION < 170_000 && CLAIM_FAILS.test(wrong)
}

const CLAIM_FAILS = /: locks and leases failed: error: sluice\.message: expected to settle/

/** The SQLSTATE of rows that a statement should have changed. */
const UNSETTLED = 'SL001'

/** The COMMIT of a leased claim: from here on no transaction keeps the messages, and they are in hand. */
const leases: ClaimStep = {
  name: 'leases',
  run: async (session, { ledger }) => {
    await session.commit()
    ledger.leases(session.name)
  },
}

/** Inserts a message with a lower id than all others: one whose id was drawn first, or that is redriven. */
export const insertBelow: ClaimStep = {
  name: 'inserts below',
  run: async (session, { queue, target, ids, ledger }) => {
    await session.begin()
    const below = String(BigInt(ids[0]!) - 1_000_000n)
    await session.client.query(
      `INSERT INTO sluice.message (queue, id, ordering_key, payload) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, '{}')`,
      [queue, below, target.key],
    )
    ledger.enqueues(session.name, [below], target.key)
  },
}

export interface LeasedPlay {
  readonly target: Target
  /** How many due messages there are at the beginning. */
  readonly count: number
  /** The session that has leased the first ones by then. */
  readonly holder: string
  /** How many. @default 1 */
  readonly limit?: number
  /** What has happened to them since. */
  readonly since?: readonly ClaimStep[]
  readonly sessions: Scenario<ClaimWorld>['sessions']
}

/** Interleavings in a queue where a session has leased messages already. */
export function leasedScenario(stage: Stage, play: LeasedPlay): Scenario<ClaimWorld> {
  const { target, count, holder, limit = 1, since = [], sessions } = play
  const scenario = claimScenario(stage, target, count, sessions)
  return {
    ...scenario,
    prepare: async (queue, session) => {
      const world = await scenario.prepare(queue, session)
      await stage.need([holder])
      await register(stage.session(holder).client, queue, new Set([holder, ...Object.keys(sessions)]))
      for (const step of [leaseAtOnce({ limit }), ...since]) await step.run(stage.session(holder), world)
      return world
    },
  }
}

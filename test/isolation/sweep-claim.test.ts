import { describe, expect } from 'vitest'
import type { Floors } from '../../src/claim/floors.ts'
import { claim } from '../../src/table/claim/claim.ts'
import { claimSlots } from '../../src/table/claim/claim-ordered.ts'
import { scanQueue } from '../../src/table/claim/queue-scan.ts'
import {
  accountsOf,
  ack,
  commit,
  differences,
  inOneStep,
  rollBack,
  type Target,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { FAR_FUTURE_US, type FloorWorld, floorScenario } from '../support/permutations/floors.ts'
import type { Seen } from '../support/permutations/ledger.ts'
import { explore, exploreFor, type PlayedStep, type Scenario } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { type Stage, test } from '../support/permutations/stage.ts'
import { idsOf, put } from '../support/rows/claim-session.ts'
import { claimedRow, orderedClaim } from '../support/rows/claimed-row.ts'
import { PAUSED_CLAIM } from '../support/twins/statements.ts'

const MANY = 10

interface SweepWorld extends FloorWorld {
  /** What there was when the sweep looked over the queue. */
  readonly over: { seen: Seen }
}

type SweepStep = PlayedStep<SweepWorld>

/** Targets that this look does not find are not swept. */
const looksOver: SweepStep = {
  name: 'looks over the queue',
  run: async (session, { queue, floors, ledger, over }) => {
    over.seen = ledger.sees()
    const { priorities, slots } = await scanQueue(session.execute(), queue)
    floors.learn(priorities, slots)
  },
}

/** The claim of the sweep; a broken one believes in its floors. */
const sweeps = (bottom: boolean): SweepStep => ({
  name: 'sweeps',
  run: async (session, { queue, target, floors, ledger, looks }) => {
    await session.begin()
    const execute = session.execute(...PAUSED_CLAIM)
    const seen = ledger.sees()
    const claiming =
      target.key === null
        ? claim(execute, queue, floors.priorities(bottom ? 'bottom' : FAR_FUTURE_US), MANY)
        : claimSlots(execute, queue, floors.slots(bottom), MANY)
    claiming.catch(() => undefined)
    looks.set(session.name, { seen, claiming })
    await session.untilAtGate(claiming)
  },
})

const locksAll: SweepStep = {
  name: 'locks',
  run: async (session, { queue, target, ledger, looks, hands, over }) => {
    const due = ledger.due().filter((id) => over.seen.has(id))
    const taken = target.key !== null && ledger.inHands
    await session.openGate(queue)
    const { seen, claiming } = looks.get(session.name)!
    const { rows } = await claiming
    const late = idsOf({ rows }).filter((id) => over.seen.has(id))
    ledger.wrong.push(...differences(ledger, 'the sweep', late, taken ? [] : due))
    ledger.claims(session.name, idsOf({ rows }), seen)
    hands.set(session.name, rows)
  },
}

const enqueues: SweepStep = {
  name: 'enqueues',
  run: async (session, { queue, target, ledger }) => {
    const ids = await put(
      { sql: async (text, params = []) => (await session.client.query(text, [...params])).rows },
      queue,
      [{ key: target.key, priority: 2 }],
    )
    ledger.enqueues(session.name, ids, target.key)
    ledger.commits(session.name)
  },
}

/** Three messages, and a process whose floors are above them: as after another process's rollback. */
function sweepScenario(stage: Stage, target: Target, sessions: Scenario<SweepWorld>['sessions']): Scenario<SweepWorld> {
  const { prepare } = floorScenario(stage, target, {}, 3)
  return {
    sessions,
    prepare: async (queue, session) => {
      await session('process').closeGate(queue)
      const world = await prepare(queue, session)
      raiseAll(world.floors, target)
      return { ...world, over: { seen: new Set() } }
    },
    wrong: (world) => accountsOf(stage.database, world),
  }
}

function raiseAll(floors: Floors, { slot }: Target): void {
  const { lowered } = floors
  floors.claimed([claimedRow({ id: '1', dueUs: Math.floor(FAR_FUTURE_US / 2) })], {
    bottom: false,
    full: false,
    lowered,
  })
  for (const xid of [1n, 2n]) floors.observed(orderedClaim({ [slot]: String(2n ** 60n) }, { xmin: xid + 1n, xid }))
}

describe('a sweep beside claims', () => {
  for (const end of [commit, rollBack]) {
    const other = [take(), end === commit ? inOneStep(ack, commit) : rollBack]

    test(`finds all that is due and free, when another batch ${end.name}`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const process = [looksOver, sweeps(true), locksAll, inOneStep(ack, commit)]
      for (const target of [unkeyed, keyed]) {
        const explored = await explore(stage, sweepScenario(stage, target, { process, other, enqueuer: [enqueues] }))
        expect(summary(explored)).toEqual({ interleavings: 105, waited: 0, wrong: [] })
      }
    })
  }

  test('misses what is below its floors if it believes in them', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const process = [looksOver, sweeps(false), locksAll, inOneStep(ack, commit)]
    for (const target of [unkeyed, keyed]) {
      const explored = await exploreFor(stage, sweepScenario(stage, target, { process, other: [take(), rollBack] }), [
        'the sweep has lost 1',
      ])
      expect(wrongs(explored)).toContain('the sweep has lost 1')
    }
  })
})

import { Floors } from '../../../src/claim/floors.ts'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimSlots } from '../../../src/table/claim/claim-ordered.ts'
import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { idsOf } from '../rows/claim-session.ts'
import { acked, insertRow } from '../rows/settled-rows.ts'
import type { TestDatabase } from '../servers/database.ts'
import { type ClaimWorld, claimScenario, commit, executeAlone, type Target } from './claims.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Rewrite } from './rewrite.ts'
import type { Stage } from './stage.ts'

/** A process that remembers where its next claim begins. */
export interface FloorWorld extends ClaimWorld {
  readonly floors: Floors
}

export type FloorStep = PlayedStep<FloorWorld>

/** No look-back: the floors stand where they are. */
export const FAR_FUTURE_US = Number.MAX_SAFE_INTEGER

async function takeOne(execute: Execute, { queue, target, floors }: FloorWorld) {
  const { lowered } = floors
  if (target.key === null) {
    const taken = await claim(execute, queue, floors.priorities(FAR_FUTURE_US), 1)
    floors.claimed(taken.rows, { bottom: false, full: taken.rows.length === 1, lowered })
    return taken
  }
  const taken = await claimSlots(execute, queue, floors.slots(false), 1)
  floors.observed(taken)
  return taken
}

/** A batch of one message, from claim to COMMIT. */
export const handle = (...twin: readonly Rewrite[]): FloorStep => ({
  name: 'handles one',
  run: async (session, world) => {
    const { queue, ledger } = world
    await session.begin()
    const seen = ledger.sees()
    const ids = idsOf(await takeOne(session.execute(...twin), world))
    ledger.claims(session.name, ids, seen)
    ledger.moves(session.name, ids, 'handled')
    await acked(session.execute(), queue, ids)
    ledger.commits(session.name)
    await session.commit()
  },
})

export const insert = (count: number): FloorStep => ({
  name: 'inserts',
  run: async (session, { queue, target, ledger }) => {
    await session.begin()
    const rows = Array.from({ length: count }, () => insertRow(target.key))
    ledger.enqueues(session.name, await insertMessages(session.execute(), queue, rows), target.key)
  },
})

export const insertAtOnce = (count: number): FloorStep => ({
  name: 'inserts and commits',
  run: async (session, world) => {
    await insert(count).run(session, world)
    await commit.run(session, world)
  },
})

/** Sessions with a process that claims from its floors, in a queue that begins with so many due messages. */
export function floorScenario(
  stage: Stage,
  target: Target,
  sessions: Scenario<FloorWorld>['sessions'],
  count = 0,
): Scenario<FloorWorld> {
  const { prepare, wrong } = claimScenario(stage, target, count, {})
  return {
    sessions,
    prepare: async (queue, session) => {
      const floors = new Floors()
      if (target.key !== null) floors.learn([], [target.slot])
      return { ...(await prepare(queue, session)), floors }
    },
    wrong: async (world) => [...(await hidden(stage.database, world)), ...(await wrong(world))],
  }
}

/** A slot's floor is exact: what is due is found from it, without a sweep. */
async function hidden(database: TestDatabase, world: FloorWorld): Promise<readonly string[]> {
  const { target, ledger } = world
  const [first] = ledger.due().toSorted((a, b) => Number(BigInt(a) - BigInt(b)))
  if (target.key === null || first === undefined) return []
  const found = idsOf(await takeOne(executeAlone(database), world))
  return found.includes(first) ? [] : [`the floor hides ${ledger.numberOf(first)}`]
}

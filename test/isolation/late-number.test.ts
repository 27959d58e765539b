import { describe, expect, onTestFinished } from 'vitest'
import { insertMessages } from '../../src/table/enqueue/insert.ts'
import { commit, type Target, targetsOf } from '../support/permutations/claims.ts'
import { type FloorStep, type FloorWorld, floorScenario, handle, insertAtOnce } from '../support/permutations/floors.ts'
import { explore, exploreFor, type Scenario } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { type PlayedSession, type Stage, test } from '../support/permutations/stage.ts'
import { times } from '../support/plans/counted.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { insertRow } from '../support/rows/settled-rows.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { NUMBERED_LATE } from '../support/twins/functions.ts'
import { INSERT_NUMBERED_LATE } from '../support/twins/statements.ts'

const inserting = new Map<PlayedSession, Promise<readonly string[]>>()

type Enqueue = (session: PlayedSession, world: FloorWorld) => Promise<readonly string[]>

const one: Enqueue = (session, { queue, target }) => insertMessages(session.execute(), queue, [insertRow(target.key)])

const two =
  (...twin: readonly Rewrite[]): Enqueue =>
  (session, { queue, target }) =>
    insertMessages(session.execute(...twin), queue, times(2, [insertRow(target.key)]))

const bySql: Enqueue = async ({ client }, { queue, target }) => {
  const text = `SELECT sluice.enqueue($1, '{}', ordering_key => $2)::text AS id`
  const { rows } = await client.query<{ id: string }>(text, [queue, target.key])
  return rows.map(({ id }) => id)
}

const drawId = (enqueue: Enqueue): FloorStep => ({
  name: 'draws an id',
  run: async (session, world) => {
    await session.begin()
    const answer = enqueue(session, world)
    answer.catch(() => undefined)
    inserting.set(session, answer)
    await session.untilAtGate(answer)
  },
})

const goOn: FloorStep = {
  name: 'goes on',
  run: async (session, { queue, target, ledger }) => {
    await session.openGate(queue)
    ledger.enqueues(session.name, await inserting.get(session)!, target.key)
  },
}

/**
 * A slot's floor trusts that who has drawn an id has a transaction number by then. The server gives the number with the
 * first row, a moment after the row's id was drawn, and here the enqueue stands still in that moment.
 */
describe('claims beside an enqueue that stands still between its id and its row', () => {
  test('do not overtake it', async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    await pauseInserts(stage.database)
    for (const [enqueue, claims, interleavings] of [
      [one, 3, 140],
      [two(), 2, 60],
      [bySql, 2, 60],
    ] as const) {
      const explored = await explore(stage, scenarioOf(stage, keyed, [drawId(enqueue), goOn, commit], claims))
      expect(summary(explored)).toEqual({ interleavings, waited: 0, wrong: [] })
    }
  })

  test('overtake it if it has no transaction number yet', async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    await pauseInserts(stage.database)
    await using _ = await edited(stage.database, NUMBERED_LATE)
    for (const enqueue of [one, two(...INSERT_NUMBERED_LATE), bySql]) {
      const explored = await exploreFor(stage, scenarioOf(stage, keyed, [drawId(enqueue), goOn, commit], 2), [
        'the floor hides 4',
      ])
      expect(wrongs(explored)).toContain('the floor hides 4')
    }
  })
})

function scenarioOf(stage: Stage, target: Target, late: readonly FloorStep[], claims: number): Scenario<FloorWorld> {
  const process = times(claims, [handle()])
  const scenario = floorScenario(stage, target, { late, early: [insertAtOnce(3)], process })
  return {
    ...scenario,
    prepare: async (queue, session) => {
      await session('late').closeGate(queue)
      return scenario.prepare(queue, session)
    },
  }
}

/** A gate between the drawing of an id and the row's way into the table. */
async function pauseInserts(database: TestDatabase): Promise<void> {
  await database.sql(`
    CREATE FUNCTION pause_insert() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext(NEW.queue));
      RETURN NEW;
    END $$`)
  await database.sql(
    'CREATE TRIGGER pause BEFORE INSERT ON sluice.message FOR EACH ROW EXECUTE FUNCTION pause_insert()',
  )
  onTestFinished(async () => void (await database.sql('DROP FUNCTION pause_insert() CASCADE')))
}

import { describe, expect } from 'vitest'
import { deleteDeadLetters, redriveDeadLetters } from '../../src/table/operate/messages/change-dead-letters.ts'
import type { DeadLetterMatch } from '../../src/table/operate/messages/dead-letters.ts'
import type { Execute } from '../../src/table/statement.ts'
import {
  ack,
  type ClaimStep,
  claimScenario,
  commit,
  inOneStep,
  rollBack,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { bury } from '../support/permutations/settle.ts'
import { test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { REDRIVE_READS_FIRST } from '../support/twins/functions.ts'

/** An operation on all dead letters of the queue; in these plays there is one, the first message. */
const operation = (
  name: string,
  operate: (execute: Execute, filter: DeadLetterMatch) => Promise<number>,
  place: 'waiting' | 'cancelled',
): ClaimStep => ({
  name,
  run: async (session, { queue, ids, ledger }) => {
    await session.begin()
    const every = {
      ids: null,
      type: null,
      tenant: null,
      diedBefore: null,
      diedAfter: null,
      reason: null,
      error: null,
    }
    const count = await operate(session.execute(), { queue, ...every })
    ledger.moves(session.name, ids.slice(0, count), place)
  },
})

const redrive = operation('redrives', redriveDeadLetters, 'waiting')
const discard = operation('discards', deleteDeadLetters, 'cancelled')

const handle = inOneStep(take({ limit: 1 }), ack, commit)
const buries = [inOneStep(take({ limit: 1 }), bury), commit]
const isDead: ClaimStep = inOneStep(take({ limit: 1 }), bury, commit)

describe('a redrive beside claims', () => {
  for (const kind of ['unkeyed', 'keyed'] as const) {
    test(`gives back what has died, once, and what dies meanwhile or not: ${kind}`, async ({ stage }) => {
      const { [kind]: target } = await targetsOf(stage.database)
      const sessions = { batch: buries, operator: [redrive, commit], claims: [handle, handle] }
      const explored = await explore(stage, claimScenario(stage, target, 1, sessions))
      expect(summary(explored)).toEqual({ interleavings: 90, waited: 0, wrong: [] })
    })

    for (const end of [commit, rollBack]) {
      test(`and a discard that ${end.name} do not both have the message: ${kind}`, async ({ stage }) => {
        const { [kind]: target } = await targetsOf(stage.database)
        const sessions = { batch: [isDead], operator: [redrive, commit], other: [discard, end], claims: [handle] }
        const explored = await explore(stage, claimScenario(stage, target, 1, sessions))
        expect(summary(explored)).toEqual({ interleavings: 180, waited: 20, wrong: [] })
      })
    }
  }

  test('by two operators gives it back once', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    const redrives = [redrive, commit]
    const sessions = { batch: [isDead], operator: redrives, other: redrives, claims: [handle] }
    const explored = await explore(stage, claimScenario(stage, unkeyed, 1, sessions))
    expect(summary(explored)).toEqual({ interleavings: 90, waited: 10, wrong: [] })
  })

  test('gives back what has been discarded if it reads the dead letters before it deletes them', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    await using _ = await edited(stage.database, REDRIVE_READS_FIRST)
    const sessions = { batch: [isDead], operator: [redrive, commit], other: [discard, commit], claims: [handle] }
    const explored = await exploreFor(stage, claimScenario(stage, unkeyed, 1, sessions), [
      'operator has 1 waiting, which was cancelled',
    ])
    expect(wrongs(explored)).toContain('operator has 1 waiting, which was cancelled')
  })
})

import type pg from 'pg'
import {
  type CancelAnswer,
  cancelMessage,
  changeMessage,
  clearSome,
  rescheduleMessage,
} from '../../../src/table/operate/messages/change-message.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { releaseHolds } from '../../../src/table/worker/release-holds.ts'
import { type ClaimStep, type ClaimWorld, executeAlone } from './claims.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Stage } from './stage.ts'

/** A queue with an operator, who tells the workers of holds that he could not take away. */
export interface OperatedWorld extends ClaimWorld {
  /** Told of in this play. */
  readonly told: ReadonlySet<string>
  /** What the first message says since the change has been committed. */
  changed: string | undefined
}

const HOUR_US = 3_600_000_000

export type OperatedStep = PlayedStep<OperatedWorld>

/** Cancels the first message. */
export const cancels: OperatedStep = {
  name: 'cancels',
  run: async (session, { queue, ids, ledger }) => {
    await session.begin()
    const [id = ''] = ids
    const answer = await cancelMessage(session.execute(), queue, { id, dedupeKey: null })
    if (answer.result === 'cancelled') ledger.moves(session.name, [id], 'cancelled')
    const isThere = ledger.idsIn('waiting', 'later').includes(id)
    if (!fits(answer, isThere, ledger.inHands))
      ledger.wrong.push(`the operator is told ${answer.result}, ${answer.state}`)
  },
}

/** `asked` needs somebody who has it in hand; `nothing`, that it is gone. */
function fits({ result }: CancelAnswer, isThere: boolean, inHands: boolean): boolean {
  if (result === 'cancelled') return true
  return result === 'asked' ? inHands : !isThere
}

/** Makes the first message due, if it waits for its retry. */
export const runsNow: ClaimStep = {
  name: 'runs it now',
  run: async (session, { queue, ids, ledger }) => {
    await session.begin()
    const [id = ''] = ids
    const { result } = await rescheduleMessage(
      session.execute(),
      queue,
      { id, dedupeKey: null },
      { delayMs: 0, dueAt: null },
    )
    if (result === 'changed' && ledger.idsIn('later').includes(id)) ledger.moves(session.name, [id], 'waiting')
  },
}

/** A batch that has taken another key of the slot fails, and drops the holds that are over. */
export const holdsAnotherKey: ClaimStep = {
  name: 'holds another key',
  run: async (session, { queue, target: { slot } }) => {
    await session.begin()
    const free = 'SELECT FROM sluice.slot WHERE queue = $1 AND slot = $2 FOR NO KEY UPDATE SKIP LOCKED'
    if ((await session.client.query(free, [queue, slot])).rows.length === 0) return
    const nowUs = Date.now() * 1_000
    const untilUs = nowUs + HOUR_US
    await holdKeys(session.execute(), queue, [{ slot, orderingKey: 'another', messageId: '0', untilUs }], nowUs)
  },
}

/** Gives the first message another payload. */
export const changes: OperatedStep = {
  name: 'changes',
  run: async (session, { queue, ids, ledger }) => {
    await session.begin()
    const [id = ''] = ids
    const { result } = await changeMessage(session.execute(), queue, { id, dedupeKey: null }, { payload: NEW })
    changing.set(session.client, result === 'changed')
    const isFree = ledger.idsIn('waiting').includes(id) && !ledger.inHands
    if (result === 'refused' && isFree) ledger.wrong.push('the change of a message is refused that nobody has')
  },
}

const NEW = '"new"'
const changing = new WeakMap<pg.Client, boolean>()

export const commitsChange: OperatedStep = {
  name: 'commits',
  run: async (session, world) => {
    if (changing.get(session.client) === true) world.changed = NEW
    await session.commit()
  },
}

/** Removes what nobody has in hand. */
export const clears: OperatedStep = {
  name: 'clears',
  run: async (session, { queue, ledger }) => {
    await session.begin()
    const before = await idsIn(session.client, queue)
    const none = { type: null, orderingKey: null, tenant: null, enqueuedBefore: null, enqueuedAfter: null }
    await clearSome(session.execute(), queue, null, { ...none, state: null, dryRun: false })
    const after = new Set(await idsIn(session.client, queue))
    // What others have committed meanwhile is handled, and not cleared.
    const gone = before.filter((id) => !after.has(id) && ledger.idsIn('waiting', 'later').includes(id))
    ledger.moves(session.name, gone, 'cancelled')
  },
}

async function idsIn(client: pg.Client, queue: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ id: string }>(
    'SELECT id::text AS id FROM sluice.message WHERE queue = $1 ORDER BY message.id',
    [queue],
  )
  return rows.map(({ id }) => id)
}

/** Adds to interleavings of claims a session `operator`, and a worker that hears of holds. */
export function operated(
  { database }: Stage,
  scenario: Scenario<ClaimWorld>,
  sessions: Scenario<OperatedWorld>['sessions'],
): Scenario<OperatedWorld> {
  return {
    sessions,
    prepare: async (queue, session) => {
      const told = await heard(session('operator').client)
      return { ...(await scenario.prepare(queue, session)), told, changed: undefined }
    },
    wrong: async (world) => {
      const { queue, told } = world
      // A notification is here before the answer to what is asked after its commit.
      if (told.has(queue)) await releaseHolds(executeAlone(database), queue)
      return [...(await scenario.wrong(world)), ...(await lostChange(database.sql, world))]
    },
  }
}

const listeners = new WeakMap<pg.Client, Set<string>>()

/** The queues of whose holds the workers have been told. */
async function heard(client: pg.Client): Promise<ReadonlySet<string>> {
  const known = listeners.get(client)
  if (known !== undefined) return known
  const told = new Set<string>()
  listeners.set(client, told)
  client.on('notification', ({ payload = '' }) => told.add(payload.replace('!holds!', '')))
  await client.query('LISTEN sluice')
  return told
}

async function lostChange(
  sql: Stage['database']['sql'],
  { queue, ids, hands, ledger, changed }: OperatedWorld,
): Promise<readonly string[]> {
  const [id = ''] = ids
  const rows = await sql<{ payload: string }>(
    'SELECT payload::text AS payload FROM sluice.message WHERE queue = $1 AND id = $2',
    [queue, id],
  )
  const handled = [...hands.values()].flat().filter((row) => row.id === id && ledger.idsIn('handled').includes(id))
  const seen = [...rows, ...handled].map(({ payload }) => payload)
  const expected = changed ?? '{}'
  return seen.filter((payload) => payload !== expected).map((payload) => `the payload is ${payload}, not ${expected}`)
}

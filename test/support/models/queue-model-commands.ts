import fc from 'fast-check'
import { expect } from 'vitest'
import { stepSqlClock } from '../../../faults/environment/sql-clock.ts'
import { pick } from './model-steps.ts'
import { type Given, type ModelFilter, type ModelMessage, type QueueModel, us } from './queue-model.ts'
import { type Run, replay } from './queue-model-run.ts'
import { stepOf } from './queue-model-script.ts'
import type { QueueSystem, Spec, Way } from './queue-model-system.ts'

export type Command = fc.AsyncCommand<QueueModel, QueueSystem>

/** Commands on a queue whose ordering keys are among these. */
export function commandsOf(keys: readonly string[]): fc.Arbitrary<Iterable<Command>> {
  const specs = fc.array(specOf(keys), { minLength: 1, maxLength: 5, size: 'max' })
  const way = fc.constantFrom<Way>('enqueue', 'enqueueMany', 'sql')
  const ending = fc.constantFrom('commit', 'commit', 'commit', 'roll back', 'leave open')
  const place = fc.nat(20)
  const enqueues = fc.tuple(way, specs, ending).map(([by, messages, then]) => enqueue(by, messages, then))
  const ends = fc.tuple(place, fc.boolean()).map(([at, committed]) => endLate(at, committed))
  const runs = runOf.map(run)
  const steps = fc.constantFrom(-2, -1, 1, 1, 2, 4).map(step)
  const redrives = fc.tuple(filterOf, fc.constantFrom('sql', 'library')).map(([of, by]) => redrive(of, by))
  const deletes = filterOf.map(deleteDead)
  return fc.commands([enqueues, enqueues, ends, runs, runs, steps, steps, redrives, deletes], {
    maxCommands: 30,
    size: 'max',
  })
}

const runOf = fc
  .record<Run>({
    mode: fc.constantFrom('each', 'batch'),
    leased: fc.boolean(),
    ordered: fc.boolean(),
    batchSize: fc.integer({ min: 1, max: 5 }),
    concurrency: fc.constantFrom(1, 1, 3),
  })
  .map((drawn) => ({ ...drawn, ordered: drawn.ordered && !drawn.leased }))

/** Drawn without knowing what is dead: the dead letter at a place gives the value to compare with. */
interface DrawnFilter {
  readonly by: 'nothing' | 'ids' | 'type' | 'died before' | 'died after'
  readonly place: number
}

const filterOf = fc.record<DrawnFilter>({
  by: fc.constantFrom('nothing', 'ids', 'type', 'died before', 'died after'),
  place: fc.nat(20),
})

function specOf(keys: readonly string[]): fc.Arbitrary<Spec> {
  return fc.record<Spec>({
    script: fc.array(stepOf, { maxLength: 4 }),
    key: fc.constantFrom(null, null, ...keys),
    type: fc.constantFrom(null, 'order.paid', '__proto__'),
    priority: fc.constantFrom(5, 5, 0, 9),
    maxAttempts: fc.constantFrom(null, null, 1, 2),
    headers: fc.constantFrom<Given['headers']>({}, { trace: 'x' }, { constructor: '\\"\u001b' }),
    hours: fc.constantFrom(null, null, null, 1, 3, -1),
    at: fc.constantFrom('delay', 'dueAt'),
  })
}

function enqueue(way: Way, specs: readonly Spec[], ending: string): Command {
  return command(`enqueue(${way}, ${fc.stringify(specs)}, ${ending})`, async (model, system) => {
    const begun = await system.begin(way, specs)
    if (ending === 'leave open' && system.open.length < MOST_OPEN) {
      system.open.push(begun)
      return
    }
    const committed = ending !== 'roll back'
    await system.end(begun, committed)
    if (committed) add(model, begun.messages)
  })
}

/** The pool of the test has ten connections. */
const MOST_OPEN = 3

function endLate(at: number, committed: boolean): Command {
  return command(`end late(${at}, ${committed ? 'commit' : 'roll back'})`, async (model, system) => {
    const transaction = pick(system.open, at)
    if (transaction === undefined) return
    system.open.splice(system.open.indexOf(transaction), 1)
    await system.end(transaction, committed)
    if (committed) add(model, transaction.messages)
  })
}

function run(how: Run): Command {
  return command(`run(${fc.stringify(how)})`, async (model, system) => {
    const fromUs = await system.nowUs()
    const trace = await system.run(how)
    // What a handler asks for counts from an instant that is reckoned, a little later than it was.
    const toUs = (await system.nowUs()) + RECKONED_US
    replay(model, trace, how, { fromUs, toUs })
  })
}

const RECKONED_US = 1_000_000

/** A step forwards goes a minute further, so that nothing is due in the very instant at which somebody looks. */
function step(hours: number): Command {
  return command(`step(${hours} h)`, async (_, system) => {
    await stepSqlClock(system.sql, hours * 3_600_000 + (hours > 0 ? 60_000 : 0))
  })
}

function redrive(drawn: DrawnFilter, way: 'sql' | 'library'): Command {
  return command(`redrive(${fc.stringify(drawn)}, ${way})`, async (model, system) => {
    const filter = filterFrom(drawn, model)
    const fromUs = await system.nowUs()
    const redriven = await system.redrive(filter, way)
    expect(redriven).toBe(model.redrive(filter, { fromUs, toUs: await system.nowUs() }))
  })
}

function deleteDead(drawn: DrawnFilter): Command {
  return command(`delete dead(${fc.stringify(drawn)})`, async (model, system) => {
    const filter = filterFrom(drawn, model)
    expect(await system.deleteDead(filter)).toBe(model.deleteDead(filter))
  })
}

function filterFrom({ by, place }: DrawnFilter, model: QueueModel): ModelFilter {
  const none = { ids: null, type: null, diedBefore: null, diedAfter: null }
  const dead = pick(model.deadInOrderOfIds(), place)
  switch (by) {
    case 'nothing':
      return none
    case 'ids':
      // One that is dead and one that is not.
      return { ...none, ids: [dead?.id ?? '0', model.inOrderOfIds()[0]?.id ?? '1'] }
    case 'type':
      return { ...none, type: 'order.paid' }
    case 'died before':
      return { ...none, diedBefore: dead === undefined ? 0 : us(dead.died) }
    case 'died after':
      return { ...none, diedAfter: dead === undefined ? 0 : us(dead.died) }
  }
}

function add(model: QueueModel, messages: readonly ModelMessage[]): void {
  for (const message of messages) model.messages.set(message.id, message)
}

function command(name: string, act: (model: QueueModel, system: QueueSystem) => Promise<void>): Command {
  return {
    check: () => true,
    run: async (model, system) => {
      await act(model, system)
      await expectAgreement(model, system)
    },
    toString: () => name,
  }
}

/** The views say what the model says. */
async function expectAgreement(model: QueueModel, system: QueueSystem): Promise<void> {
  const nowUs = await system.nowUs()
  const seen = await system.observe()
  model.learn(
    new Map(seen.messages.map(({ id, due }) => [id, Number(due)])),
    new Map(seen.dead.map(({ id, died }) => [id, Number(died)])),
  )
  const messages = model.inOrderOfIds().map((message) => messageView(model, message, nowUs))
  expect(seen.messages).toEqual(messages)
  expect(seen.dead).toEqual(model.deadInOrderOfIds().map(deadView))
  expect(seen.counts).toEqual(countsView(model, nowUs))
  const effects = [...model.effects].map(([id, count]) => ({ id, count }))
  expect(seen.effects).toEqual(effects.sort((a, b) => Number(a.id) - Number(b.id)))
  expect(seen.children.map(({ id }) => id).sort()).toEqual(model.children.toSorted())
  const inOrder = model.inOrderOfIds().toSorted((a, b) => us(a.due) - us(b.due))
  expect(seen.peeked).toEqual(inOrder.slice(0, 3).map(({ id }) => id))
}

function messageView(model: QueueModel, message: ModelMessage, nowUs: number) {
  const { slot: _slot, enqueuedUs: _enqueued, closes: _closes, due, ...same } = message
  return {
    ...same,
    state: stateOf(message, nowUs),
    due: String(due),
    heldBy: heldBy(model, message, nowUs),
    worker: null,
  }
}

/** The message for which another of its key waits. */
function heldBy(model: QueueModel, message: ModelMessage, nowUs: number): string | null {
  const hold = model.holdOn(message)
  if (hold !== undefined && us(hold.until) > nowUs && hold.id !== message.id) return hold.id
  return model.closedBy(message)?.id ?? null
}

function deadView({
  slot: _slot,
  enqueuedUs: _enqueued,
  due: _due,
  failed: _failed,
  closes: _closes,
  died,
  ...same
}: ReturnType<QueueModel['deadInOrderOfIds']>[number]) {
  return { ...same, died: String(died) }
}

function countsView(model: QueueModel, nowUs: number) {
  const messages = model.inOrderOfIds()
  const states = messages.map((message) => {
    const state = stateOf(message, nowUs)
    return state === 'ready' && heldBy(model, message, nowUs) !== null ? 'held' : state
  })
  const count = (state: string) => states.filter((other) => other === state).length
  const later = messages.map(({ due }) => us(due)).filter((due) => due > nowUs)
  return {
    ready: count('ready'),
    held: count('held'),
    scheduled: count('scheduled'),
    retrying: count('retrying'),
    inFlight: 0,
    dead: model.dead.size,
    nextDue: later.length === 0 ? null : String(Math.min(...later)),
  }
}

function stateOf({ due, attempt }: ModelMessage, nowUs: number): string {
  if (us(due) <= nowUs) return 'ready'
  return attempt > 0 ? 'retrying' : 'scheduled'
}

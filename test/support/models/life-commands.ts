import fc from 'fast-check'
import { expect } from 'vitest'
import type { OnDuplicate } from '../../../src/message-options.ts'
import { expectAgreement } from './life-agreement.ts'
import { claim, renewLease, rollBack, settleLease, settleTransaction } from './life-batches.ts'
import { claimObject, pop, release, renewTheClaim, settleClaim } from './life-claims.ts'
import type { Ask } from './life-dedupe.ts'
import type { End, Holder, LifeModel } from './life-model.ts'
import { type By, cancel, change, clear, reschedule } from './life-operations.ts'
import type { LifeSystem, Spec } from './life-system.ts'
import { pick } from './model-steps.ts'

/** Something that is done to a queue: by the library's statements, and by the model. */
export interface LifeCommand {
  readonly run: (model: LifeModel, system: LifeSystem) => Promise<void>
  readonly [fc.toStringMethod]: () => string
}

const limits = fc.integer({ min: 1, max: 4 })
const hours = fc.constantFrom(1, 3)
const delays = fc.constantFrom(0, 0, 0, 0, 0, 1, 3)
const ttls = fc.constantFrom(null, null, null, 1, 2, 4)
const place = fc.nat(100)
const by = fc.constantFrom<By>('id', 'id', 'id', 'id', 'A', 'B')
const ends = fc.array(fc.constantFrom<End>('ack', 'retry', 'retry', 'snooze', 'bury', 'leave'), {
  minLength: 4,
  maxLength: 4,
})
const end = fc.constantFrom<End>('ack', 'ack', 'retry', 'snooze', 'bury')
const policies = fc.constantFrom<OnDuplicate>('reject', 'update', 'requeue', 'debounce', 'throttle')

/** Commands on a queue whose ordering keys are among these. `slots`: of these, and of the dedupe keys. */
export function lifeCommandsOf(
  ordered: readonly string[],
  slots: ReadonlyMap<string, number>,
): fc.Arbitrary<readonly LifeCommand[]> {
  const keys = fc.constantFrom(null, ...ordered.slice(0, 1), ...ordered)
  const specs = fc.record({
    key: keys,
    priority: fc.constantFrom(5, 5, 0, 9),
    delayHours: delays,
    ttlHours: ttls,
    payload: fc.constant('first'),
  })
  const asks = fc.record({
    dedupeKey: fc.constantFrom('A', 'B'),
    policy: policies,
    forHours: fc.constantFrom(null, 2),
    key: keys,
    delayHours: delays,
    ttlHours: ttls,
    payload: fc.constantFrom('asked', 'asked again'),
  })
  const enqueues = commandOf(
    'enqueue',
    fc.tuple(fc.array(specs, { minLength: 1, maxLength: 4 })),
    (model, system, of) => enqueue(model, system, of, slots),
  )
  const dedupes = commandOf('ask', fc.tuple(asks), (model, system, of) => ask(model, system, withTimes(of), slots))
  const claims = commandOf('claim', fc.tuple(fc.constantFrom('transaction', 'transaction', 'lease'), limits), claim)
  const steps = commandOf('step', fc.tuple(fc.constantFrom(1, 1, 2, 4)), step)
  const settles = [
    commandOf('settle the transaction', fc.tuple(place, ends, hours), toHolder('transaction', settleTransaction)),
    commandOf('settle the lease', fc.tuple(place, end, fc.boolean(), hours), toHolder('lease', settleLease)),
    commandOf('settle the claim', fc.tuple(place, end, fc.boolean(), hours), toHolder('claim', settleClaim)),
  ]
  const reschedules = commandOf('reschedule', fc.tuple(place, by, fc.constantFrom(0, 0, 1, 2, 5)), reschedule)
  const cancels = commandOf('cancel', fc.tuple(place, by), cancel)
  const command = fc.oneof(
    ...[enqueues, enqueues, dedupes, dedupes, dedupes, claims, claims, ...settles, ...settles, steps, steps],
    commandOf('claim object', fc.tuple(limits, hours, fc.constantFrom(0, 2)), claimObject),
    commandOf('pop', fc.tuple(limits), pop),
    commandOf('roll back', fc.tuple(place), toHolder('transaction', rollBack)),
    commandOf('renew the lease', fc.tuple(place), toHolder('lease', renewLease)),
    commandOf('renew the claim', fc.tuple(place), toHolder('claim', renewTheClaim)),
    commandOf('release', fc.tuple(place), toHolder('claim', release)),
    ...[cancels, cancels, cancels],
    commandOf('change', fc.tuple(place, by, fc.constantFrom('payload', 'priority', 'ttl')), change),
    ...[reschedules, reschedules, reschedules],
    commandOf(
      'clear',
      fc.tuple(fc.constantFrom('all', 'ready', 'retrying', 'scheduled', 'expired', 'key'), keys),
      clear,
    ),
  )
  const sequence = fc.array(command, { minLength: 25, maxLength: 50, size: 'max' })
  return fc.tuple(enqueues, dedupes, sequence).map(([first, second, others]) => [first, second, ...others])
}

/** What two of the policies need. */
function withTimes(of: Ask): Ask {
  return {
    ...of,
    forHours: of.policy === 'throttle' ? 2 : of.forHours,
    delayHours: of.policy === 'debounce' ? Math.max(1, of.delayHours) : of.delayHours,
  }
}

/** At the end all that is open is rolled back, time passes, and one pipeline handles what is left, all of it. */
export async function drain(model: LifeModel, system: LifeSystem): Promise<void> {
  for (const holder of model.holders)
    if (holder.kind === 'transaction' && !holder.over) await rollBack(model, system, holder)
  await step(model, system, 200)
  while (model.rows.size > 0) {
    const before = model.holders.length
    await claim(model, system, 'transaction', 4)
    expect(model.holders.length, `something of ${[...model.rows.keys()]} is claimed`).toBe(before + 1)
    await settleTransaction(model, system, model.holders.at(-1)!, ['ack', 'ack', 'ack', 'ack'], 1)
    await expectAgreement(model, system)
  }
}

function commandOf<T extends readonly unknown[]>(
  name: string,
  drawn: fc.Arbitrary<T>,
  act: (model: LifeModel, system: LifeSystem, ...values: T) => Promise<void>,
): fc.Arbitrary<LifeCommand> {
  return drawn.map((values) => ({
    run: async (model, system) => {
      await act(model, system, ...values)
      model.lockedSlots = await system.lockedSlots()
      await expectAgreement(model, system)
    },
    [fc.toStringMethod]: () => `${name}(${values.map((value) => fc.stringify(value)).join(', ')})`,
  }))
}

/** Does something to one of those who have, or had, messages in hand. */
const toHolder =
  <T extends readonly unknown[]>(
    kind: Holder['kind'],
    act: (model: LifeModel, system: LifeSystem, holder: Holder, ...values: T) => Promise<void>,
  ) =>
  async (model: LifeModel, system: LifeSystem, at: number, ...values: T): Promise<void> => {
    const all = model.holders.filter((one) => one.kind === kind && !(kind === 'transaction' && one.over))
    // More often one who still has something.
    const busy = all.filter((one) => kind === 'transaction' || model.heldBy(one).length > 0)
    const holder = pick([...busy, ...busy, ...busy, ...all], at)
    if (holder !== undefined) await act(model, system, holder, ...values)
  }

async function step(model: LifeModel, system: LifeSystem, ahead: number): Promise<void> {
  await system.step(ahead)
  model.now += ahead * 60 + 1
}

async function enqueue(model: LifeModel, system: LifeSystem, of: readonly Spec[], slots: ReadonlyMap<string, number>) {
  for (const spec of of) add(model, spec, await system.enqueue(spec), slots)
}

async function ask(model: LifeModel, system: LifeSystem, of: Ask, slots: ReadonlyMap<string, number>): Promise<void> {
  const verdict = model.dedupe.ask(of)
  const { id, outcome } = await system.ask(of)
  expect(outcome).toBe(verdict.outcome)
  if ('id' in verdict) {
    expect(id).toBe(verdict.id)
    return
  }
  const keepHours = of.policy === 'throttle' ? null : of.forHours
  const { key } = verdict
  add(model, { ...of, key, priority: 5, keepHours }, id, slots)
  model.dedupe.added(of, id, verdict.runningId)
}

interface Added extends Spec {
  readonly dedupeKey?: string
  readonly keepHours?: number | null
}

function add(model: LifeModel, spec: Added, id: string, slots: ReadonlyMap<string, number>): void {
  const { key, priority, delayHours, ttlHours, payload, dedupeKey = null, keepHours = null } = spec
  const due = model.now + delayHours * 60
  const slot = key === null ? null : slots.get(key)!
  const expires = ttlHours === null ? null : due + ttlHours * 60
  const row = { id, key, slot, priority, payload, dedupeKey, keepHours, due, expires }
  model.rows.set(id, { ...row, tried: false, lease: null, locked: undefined })
}

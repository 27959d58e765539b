import { expect } from 'vitest'
import type { Message } from '../../../src/message.ts'
import { type ModelMessage, type QueueModel, us, type Window } from './queue-model.ts'
import type { Step, TraceEvent } from './queue-model-script.ts'

/** How a pipeline is run until nothing is due. */
export interface Run {
  readonly mode: 'each' | 'batch'
  readonly leased: boolean
  readonly ordered: boolean
  readonly batchSize: number
  readonly concurrency: number
}

/**
 * Follows on the model what the handlers of a run were given and answered: each message that was given could be taken
 * at that moment, as it is, and in its order; and at the end none is left that could be.
 */
export function replay(model: QueueModel, trace: readonly TraceEvent[], run: Run, when: Window): void {
  const running = new Set<string>()
  if (run.concurrency === 1 && !run.ordered) expectPriorities(model, trace)
  for (const event of trace) {
    if (event.kind === 'start') {
      expectStart(model, event.messages, run, when, running)
      for (const { id } of event.messages) running.add(id)
      continue
    }
    for (const [id, step] of event.steps) {
      running.delete(id)
      if (event.counts) settle(model, id, step, run, when)
    }
  }
  expect(running.size).toBe(0)
  // After a step back what has no key, and could be taken already, may also wait until the clock is there again.
  const late = ({ key, due }: ModelMessage) => key === null && us(due) > when.fromUs
  const forgotten = model.takeable(run.ordered, when.fromUs).filter((message) => !late(message))
  expect(forgotten.map(({ id }) => id)).toEqual([])
}

function settle(model: QueueModel, id: string, step: Step, { mode, ordered, leased }: Run, when: Window): void {
  const message = model.messages.get(id)
  if (message === undefined) return
  const threw = step.end === 'throw' || step.end === 'broken statement'
  const kept = mode === 'batch' ? !threw : step.end === 'ack' || step.end === 'snooze'
  if (kept && step.writes) model.effects.set(id, (model.effects.get(id) ?? 0) + 1)
  if (kept && step.enqueues) model.children.push(id)
  model.settle(message, step, { ordered, leased }, when)
}

function expectStart(model: QueueModel, given: readonly Message[], run: Run, when: Window, running: Set<string>): void {
  expect(given.length).toBeLessThanOrEqual(run.batchSize)
  const free = new Map(model.takeable(run.ordered, when.fromUs).map((message) => [message.id, message]))
  const passed = new Set<string>()
  for (const message of given) {
    const expected = free.get(message.id)
    expect(expected, `message ${message.id} may be taken`).toBeDefined()
    expect(running).not.toContain(message.id)
    if (expected !== undefined) expectSame(message, expected)
    if (expected !== undefined && (expected.key !== null || run.ordered)) {
      const before = [...free.values()].filter(({ key }) => key === expected.key)
      const first = before.find(({ id }) => !passed.has(id))
      expect(message.id, `the first of key ${expected.key}`).toBe(first?.id)
    }
    passed.add(message.id)
  }
}

function expectSame(message: Message, expected: ModelMessage): void {
  expect({
    key: message.orderingKey,
    type: message.type,
    priority: message.priority,
    maxAttempts: message.maxAttempts,
    headers: message.headers,
    attempt: message.attempt,
  }).toEqual({
    key: expected.key,
    type: expected.type,
    priority: expected.priority,
    maxAttempts: expected.maxAttempts,
    headers: expected.headers,
    attempt: expected.attempt + 1,
  })
}

/**
 * One place takes messages without a key by priority, due time and id. Until its first look over the queue is answered
 * it knows only the default priority, so some of that may go before.
 */
function expectPriorities(model: QueueModel, trace: readonly TraceEvent[]): void {
  const ids = trace.flatMap((event) => (event.kind === 'start' ? event.messages.map(({ id }) => id) : []))
  const given = [...new Set(ids)].map((id) => model.messages.get(id)).filter((message) => message?.key === null)
  const positions = given.map((message) => [message!.priority, us(message!.due), Number(message!.id)] as const)
  const knew = positions.findIndex(([priority]) => priority !== 5)
  const early = knew < 0 ? positions : positions.slice(0, knew)
  const rest = knew < 0 ? [] : positions.slice(knew)
  expect(early).toEqual(early.toSorted(byPosition))
  expect(rest).toEqual(rest.toSorted(byPosition))
}

function byPosition(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((part, place) => part !== b[place])
  return at < 0 ? 0 : a[at]! - b[at]!
}

import type { Case, Cell, Measured, SampleContext } from '../cell.ts'
import { measureWriters } from '../measure/writers.ts'

const WRITERS = [1, 16, 64]
const CONSUMERS = ['idle', 'busy'] as const

const caseName = (writers: number, consumer: (typeof CONSUMERS)[number]): string =>
  `${writers} ${writers === 1 ? 'writer' : 'writers'}, ${consumer} consumer`

const CASES = WRITERS.flatMap((writers) => CONSUMERS.map((consumer) => ({ writers, consumer })))

const WITHOUT = {
  'listen-loop': 'it notifies in every transaction, for the latency alone',
  'graphile-worker-local-queue': 'it enqueues as graphile-worker does',
}

export const enqueueOne: Cell = {
  name: 'enqueue',
  title: 'Enqueue, one message per transaction',
  measures:
    'Writers in one process, each with a connection of its own, that repeat BEGIN, one enqueue, COMMIT for 3 seconds, ' +
    'beside a consumer of the same queue in another process. Idle: it takes each message as it comes and waits for the ' +
    'next. Busy: its handlers sleep 20 ms per message, so it always has messages in flight',
  metric: { name: 'perSecond', unit: 'transactions/s', better: 'more' },
  cases: CASES.map(
    ({ writers, consumer }): Case => ({
      name: caseName(writers, consumer),
      ...(writers === 16 ? {} : { slow: true }),
      fill: () => ({ messages: 0 }),
      measure: (context) => measureWriters(context, { writers, workMs: consumer === 'idle' ? 0 : 20 }),
    }),
  ),
  asks: ({ enqueues, listens }) => enqueues !== undefined && listens !== undefined,
  without: WITHOUT,
  goals: CASES.map(({ writers, consumer }) => ({
    of: { contestant: 'sluice', case: caseName(writers, consumer) },
    over: { contestant: 'sluice-without-trigger', case: caseName(writers, consumer) },
    atLeast: 0.85,
  })),
  mostRounds: 3,
}

const ALONE = WRITERS.map((writers) => ({ writers, name: `${writers} ${writers === 1 ? 'writer' : 'writers'}` }))

export const enqueueAlone: Cell = {
  name: 'enqueue-alone',
  title: 'Enqueue, one message per transaction, without a consumer',
  measures:
    'As enqueue, without a consumer: no other process shares the cores with the writers, so it compares an enqueue ' +
    'with the INSERT by hand',
  metric: { name: 'perSecond', unit: 'transactions/s', better: 'more' },
  cases: ALONE.map(
    ({ writers, name }): Case => ({
      name,
      fill: () => ({ messages: 0 }),
      measure: (context) => measureWriters(context, { writers }),
    }),
  ),
  asks: ({ enqueues, name }) => enqueues !== undefined && /^(sluice|raw-loop)/.test(name),
  goals: ALONE.map(({ name }) => ({
    of: { contestant: 'sluice', case: name },
    over: { contestant: 'raw-loop', case: name },
    atLeast: 0.85,
  })),
  mostRounds: 3,
}

export const enqueueMany: Cell = {
  name: 'enqueue-many',
  title: 'Enqueue 1,000 messages per transaction',
  measures:
    'One writer that repeats BEGIN, 1,000 messages by one call, COMMIT for 3 seconds, without a consumer. By hand: ' +
    'INSERT … SELECT FROM unnest into the same table without its trigger',
  metric: { name: 'perSecond', unit: 'messages/s', better: 'more' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context: SampleContext): Promise<Measured> => measureWriters(context, { writers: 1, many: 1_000 }),
    },
  ],
  asks: ({ enqueues }) => enqueues !== undefined,
  without: WITHOUT,
  goals: [{ of: { contestant: 'sluice' }, over: { contestant: 'raw-loop' }, atLeast: 0.8 }],
}

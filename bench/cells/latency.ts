import type { Cell } from '../cell.ts'
import { measureLatency } from '../measure/latency.ts'

export const latency: Cell = {
  name: 'latency',
  title: 'From COMMIT to the handler of an idle consumer',
  measures:
    'A writer commits one message at a time, a consumer in another process waits for it: from sending COMMIT, so its ' +
    'flush to disk is part of it, to the start of the handler; the next message 10 to 30 ms after the last was handled',
  metric: { name: 'p50', unit: 'ms', better: 'less' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measureLatency(context, { full: 500, quick: 50 }),
    },
  ],
  asks: ({ enqueues, listens }) => enqueues !== undefined && listens !== undefined,
  without: {
    'raw-loop': 'it polls every 10 ms, so the number would show nothing else',
    'sluice-without-trigger': 'it polls every second, so the number would show nothing else',
  },
  goals: [
    { of: { contestant: 'sluice' }, over: { contestant: 'listen-loop' }, atMost: 1.5 },
    { of: { contestant: 'sluice', metric: 'p99' }, atMost: 10 },
  ],
}

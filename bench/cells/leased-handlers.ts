import type { Case, Cell, Size } from '../cell.ts'
import { type HandlersSpec, measureHandlers } from '../measure/handlers.ts'
import { PER_SECOND } from './drain.ts'

export const leasedWaiting: Cell = {
  name: 'leased-waiting',
  title: 'A thousand handlers that wait, side by side in one process',
  measures:
    'Handlers that wait for 50 ms, 1,000 messages in flight in one process, up to 100 per claim, for 6 seconds after 2 of ' +
    'warm-up; 20,000/s would be all that such handlers allow. Wait of a message: from the end of its handler to the answer to ' +
    'its COMMIT, in milliseconds. MiB: resident memory at most, the TypeScript loader and the harness included',
  metric: PER_SECOND,
  cases: [handlersCase('', { full: 150_000, quick: 15_000 }, { atOnce: 1_000, waitMs: 50 })],
  asks: ({ leases }) => leases !== undefined,
  without: { 'sluice-transactional': 'each batch whose handlers wait would be an open transaction' },
  goals: [
    // Of the 20,000 that the handlers allow, 0.97.
    { of: { contestant: 'sluice' }, atLeast: 19_400 },
    { of: { contestant: 'sluice', metric: 'settleP99' }, atMost: 8 },
    { of: { contestant: 'sluice', metric: 'rss' }, atMost: 180 },
  ],
  mostRounds: 3,
}

const NONE = 'no others'
const LIVE = 'beside 10,000 leases'

export const leasedLive: Cell = {
  name: 'leased-live',
  title: 'Claims and settlements beside 10,000 live leases',
  measures:
    'A pipeline with 9,900 messages in flight with handlers that do not end, and 100 more with handlers that wait for 10 ms, ' +
    'for 6 seconds; or with these 100 alone. Leases of 4 seconds, so that all are renewed every other second. A claim and a renewal: ' +
    'from its sending to its answer, medians. Wait of a message: from the end of its handler to the answer to its COMMIT',
  metric: { name: 'claimMs', unit: 'ms per claim', better: 'less' },
  cases: [
    handlersCase(NONE, { full: 60_000, quick: 10_000 }, { atOnce: 100, waitMs: 10, leaseMs: 4_000 }),
    handlersCase(LIVE, { full: 60_000, quick: 10_000 }, { atOnce: 100, waitMs: 10, leaseMs: 4_000, held: 9_900 }),
  ],
  asks: ({ name }) => name === 'sluice',
  goals: [
    { of: { contestant: 'sluice', case: LIVE }, over: { contestant: 'sluice', case: NONE }, atMost: 1.5 },
    // A process looks for leases to renew every eighth of their time, and sends a statement for each 500 of them.
    { of: { contestant: 'sluice', case: LIVE, metric: 'renewals' }, atMost: 96 },
    { of: { contestant: 'sluice', case: LIVE, metric: 'settleMost' }, atMost: 50 },
  ],
  mostRounds: 3,
}

function handlersCase(name: string, size: Size, spec: Omit<HandlersSpec, 'messages'>): Case {
  return {
    name,
    fill: (scale) => ({ messages: (spec.held ?? 0) + size[scale] }),
    measure: (context) => measureHandlers(context, { ...spec, messages: size[context.scale] }),
  }
}

import type { Cell } from '../cell.ts'
import { measureCrash } from '../measure/crash.ts'

const DEATHS = { full: 10, quick: 2 }
const MESSAGES = { full: 1_000, quick: 1_000 }

export const leasedCrash: Cell = {
  name: 'leased-crash',
  title: 'A process dies with 1,000 leased messages in flight',
  measures:
    'Two processes with a leased pipeline of the same queue. One has 1,000 messages in flight, with leases of 5 minutes, and is ' +
    'ended by SIGKILL; the other is idle, and its handlers do nothing: from the kill until all are durably settled. ' +
    'The median of ten deaths, and the least and the most of them',
  metric: { name: 'allMs', unit: 'ms until all are settled', better: 'less' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measureCrash(context, { messages: MESSAGES[context.scale], deaths: DEATHS[context.scale] }),
    },
  ],
  asks: ({ name }) => name === 'sluice',
  goals: [{ of: { contestant: 'sluice' }, atMost: 2_000 }],
  mostRounds: 1,
}

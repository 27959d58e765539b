import type { Cell } from '../cell.ts'
import { measureWriters } from '../measure/writers.ts'

export const inbox: Cell = {
  name: 'inbox',
  title: 'Receive 100 messages per transaction',
  measures:
    'One inbox that receives batches of 100 messages from memory for 3 seconds, and enqueues each message once: receipts and messages in ' +
    'one transaction, then the acks. Beside it: enqueueMany with 100 messages per transaction, without receipts and without a receiver',
  metric: { name: 'perSecond', unit: 'messages/s', better: 'more' },
  cases: [
    {
      name: '',
      fill: () => ({ messages: 0 }),
      measure: (context) => measureWriters(context, { writers: 1, many: 100 }),
    },
  ],
  asks: ({ name }) => name === 'sluice-inbox' || name === 'sluice',
  goals: [{ of: { contestant: 'sluice-inbox' }, over: { contestant: 'sluice' }, atLeast: 0.8 }],
}

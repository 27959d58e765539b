import type { Contestant } from '../contestant.ts'
import { messageTable, withoutTrigger } from './message-table.ts'
import { enqueue, listen, sluice } from './sluice.ts'

/** The same calls, the same statement and the same table; only without a wake-up: the difference is its cost. */
export const sluiceWithoutTrigger: Contestant = {
  name: 'sluice-without-trigger',
  title: `${sluice.title}, trigger disabled`,
  guarantee: 'As Sluice; but a consumer finds messages only at its next poll',
  ...messageTable,
  setUp: withoutTrigger,
  listens: { configuration: 'as Sluice, which then finds messages by its poll every second', run: listen },
  enqueues: { configuration: 'as Sluice, after ALTER TABLE … DISABLE TRIGGER', run: enqueue },
}

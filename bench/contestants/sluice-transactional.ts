import type { Contestant, LeaseSpec } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { sluice } from './sluice.ts'

/** Transactional mode, beside leased mode: what a lease costs is the difference. */
export const sluiceTransactional: Contestant = {
  name: 'sluice-transactional',
  title: `${sluice.title}, transactional`,
  guarantee: sluice.guarantee,
  ...messageTable,
  leases: {
    configuration:
      'pipeline(queue, { batchSize, concurrency: the messages in flight by batchSize }), all else as it comes',
    run: async (url, { batchSize, inHand, onSettled }: LeaseSpec) => {
      if (sluice.consumes === undefined) throw new Error('Expected Sluice to consume')
      return sluice.consumes.run(url, { batchSize, inFlight: inHand / batchSize, work: 'nothing', onSettled })
    },
  },
}

import { scenario } from '../run/scenario.ts'
import { PROGRESS_UNGUARDED } from '../twins/stream-twins.ts'
import { CLAIM_WITHOUT_LOCK } from '../twins/twins.ts'

export const noFault = scenario({
  name: 'no-fault',
  title: 'nothing: two workers, four batches in flight, late commits, rollbacks, failing and dying messages',
  recoveryMs: 5_000,
  injections: { quick: 1, full: 5 },
  otherwise: {
    title: 'nothing: two workers, sixteen messages in flight, late commits, rollbacks, failing and dying messages',
  },
  stream: {
    title: 'nothing: two workers, each a member of two groups, late commits, rollbacks, failing and dying events',
    twin: PROGRESS_UNGUARDED,
  },
  twin: CLAIM_WITHOUT_LOCK,
  inject: (stage) => stage.fault('nothing', () => stage.flows(200)),
})

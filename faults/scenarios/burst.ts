import { Visitor } from '../actors/visitor.ts'
import { scenario } from '../run/scenario.ts'
import { FLOOR_WITHOUT_SWEEP } from '../twins/twins.ts'

/** A flood in one transaction, which commits after what others have enqueued, and that was handled, since it began. */
export const burst = scenario({
  name: 'burst',
  title: '100,000 messages in one transaction that commits late, beside the load',
  // Four seconds of a processor, all of it work: two of them alone on two cores, eight beside three other scenarios.
  recoveryMs: 20_000,
  injections: { quick: 1, full: 5 },
  // A batch of messages in one call has no place for one that fails.
  load: { failing: 0, dying: 0 },
  workers: { wholeBatches: true, pipeline: { batchSize: 500, timeout: '5s' } },
  // A batch has at most what the process has room for. Each message is written twice, and read by its id.
  otherwise: {
    recoveryMs: 60_000,
    injections: { quick: 1, full: 5 },
    workers: { wholeBatches: true, pipeline: { batchSize: 500, concurrency: 1_000, timeout: '5s' } },
  },
  twin: FLOOR_WITHOUT_SWEEP,
  async inject(stage) {
    const flood = await Visitor.begin(stage)
    await flood.enqueue(100_000)
    await stage.flows(60)
    await stage.fault('a flood', () => flood.commit())
  },
})

import type { Wanted } from '../plan/share-connections.ts'
import type { ConnectionPlan, Share } from './connection-plan.ts'

/**
 * The shares of `runOnce` calls. The runs of a pipeline at a time have one share, as its runners have when it is started: if
 * there are fewer connections than runs, the runs wait for one another.
 */
export class RunShares {
  readonly #connections: ConnectionPlan
  readonly #running = new Map<Wanted, { readonly share: Share; runs: number }>()

  constructor(connections: ConnectionPlan) {
    this.#connections = connections
  }

  /** @returns what is called at the end of the run. @throws SluiceError OPTION_INVALID if there are too few connections */
  enter(plan: Wanted): () => void {
    // In transactional mode a run has one runner.
    const each = plan.mode === 'leased' ? plan.concurrency : 1
    const running = this.#running.get(plan) ?? {
      share: this.#connections.join({ ...plan, concurrency: each }, { briefly: true }),
      runs: 0,
    }
    this.#running.set(plan, running)
    running.runs += 1
    running.share.want(running.runs * each)
    return () => {
      running.runs -= 1
      if (running.runs > 0) return running.share.want(running.runs * each)
      this.#running.delete(plan)
      running.share.leave()
    }
  }
}

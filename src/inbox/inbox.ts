import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMs, toMsWithin } from '../basics/time/duration.ts'
import { within } from '../basics/time/within.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { DRAIN_TIMEOUT_MS } from '../pipeline/running-pipeline.ts'
import type { Consumers } from '../process/consumers.ts'
import { type InboxStatistics, Intake } from './intake.ts'
import type { InboxPlan } from './options.ts'
import { RunningInbox } from './running-inbox.ts'

/** Enqueues the messages of a broker, each once. */
export class Inbox {
  /** The queue into which it enqueues. */
  readonly queue: string
  readonly #context: EnqueueContext
  readonly #plan: InboxPlan
  readonly #consumers: Consumers

  constructor(context: EnqueueContext, plan: InboxPlan, consumers: Consumers) {
    this.queue = plan.queue
    this.#context = context
    this.#plan = plan
    this.#consumers = consumers
  }

  /**
   * Starts to receive, connecting first if need be: it waits for a database or a broker that is down. What waiting does not
   * cure rejects {@link RunningInbox.ended}, which ends the process unless it is handled.
   */
  start(): RunningInbox {
    return new RunningInbox(this.#context, this.#plan, this.#consumers)
  }

  /**
   * Receives until nothing has come for some time, and returns what became of the messages. If the broker or the database
   * is out of reach it ends, and reports `inbox.unavailable`. For tests, and for processes that are started by cron.
   *
   * @param options.wait for how long nothing must have come, 10 ms to 1 h. @default '1s'
   * @throws SluiceError OPTION_INVALID, STOPPED
   */
  async runOnce(options: { readonly wait?: Duration | undefined } = {}): Promise<InboxStatistics> {
    checkKeys('runOnce', options, ['wait'], "As in runOnce({ wait: '1s' })")
    const waitMs = toMsWithin('runOnce.wait', options.wait ?? '1s', '10ms', '1h')
    const intake = new Intake(this.#context, this.#plan, this.#consumers.report)
    const over = Promise.withResolvers<void>()
    const drain = ({ timeout = DRAIN_TIMEOUT_MS }: { readonly timeout?: Duration | undefined }) => {
      intake.drain()
      return within(toMs(timeout, 'drain.timeout'), over.promise, () => intake.stop())
    }
    try {
      await this.#consumers.during({ queue: this.queue, drain }, () => intake.runOnce(waitMs))
    } finally {
      over.resolve()
    }
    return intake.counts
  }
}

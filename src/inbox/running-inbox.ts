import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMs } from '../basics/time/duration.ts'
import { within } from '../basics/time/within.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { stopped, toError } from '../errors.ts'
import { DRAIN_TIMEOUT_MS, type Drained } from '../pipeline/running-pipeline.ts'
import type { Consumers } from '../process/consumers.ts'
import { type InboxStatistics, Intake } from './intake.ts'
import type { InboxPlan } from './options.ts'

/** An inbox that receives. */
export class RunningInbox implements AsyncDisposable {
  /** The queue into which it enqueues. */
  readonly queue: string
  /**
   * Resolves when it has ended. Rejects if it cannot start and another attempt would not help: SCHEMA_MISSING and the like. A
   * database or a broker that is down is waited for, at the start and later.
   */
  readonly ended: Promise<void>
  readonly #plan: InboxPlan
  readonly #consumers: Consumers
  readonly #intake: Intake
  /** Aborts when it need not start any more. */
  readonly #leaving = new AbortController()

  constructor(context: EnqueueContext, plan: InboxPlan, consumers: Consumers) {
    this.queue = plan.queue
    this.#plan = plan
    this.#consumers = consumers
    this.#intake = new Intake(context, plan, consumers.report)
    consumers.opened(this)
    this.ended = this.#run()
  }

  /** Reports what it has done since its start. */
  statistics(): InboxStatistics {
    return this.#intake.counts
  }

  /**
   * Receives nothing more, and stores and acks the batch that it has. After the timeout the batch is given up: the broker
   * delivers it again.
   *
   * @param options.timeout how long to wait for the batch. @default '30s'
   */
  async drain(options: { readonly timeout?: Duration | undefined } = {}): Promise<Drained> {
    checkKeys('drain', options, ['timeout'], "As in drain({ timeout: '30s' })")
    const timeoutMs = toMs(options.timeout ?? DRAIN_TIMEOUT_MS, 'drain.timeout')
    this.#leave()
    this.#intake.drain()
    let completed = true
    await this.#until(timeoutMs, () => {
      completed = false
      this.#intake.stop()
    })
    return { completed }
  }

  /** As {@link drain}, without a second try to store the batch. It ends within seconds. */
  async stop(): Promise<void> {
    this.#leave()
    this.#intake.stop()
    await this.#until(STOP_MS, () => undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain()
  }

  async #run(): Promise<void> {
    const { signal } = this.#leaving
    const noInbox = this.#consumers.inboxes.add(this.queue, this.#intake)
    try {
      await this.#consumers.ready(signal)
      const { queue, from, batchSize } = this.#plan
      this.#consumers.report({ kind: 'inbox.started', queue, receiver: from.system, batchSize })
      await this.#intake.run()
      this.#consumers.closed(this, false)
    } catch (error) {
      this.#consumers.closed(this, !signal.aborted)
      if (!signal.aborted) throw toError(error)
    } finally {
      noInbox()
    }
  }

  #leave(): void {
    this.#consumers.leaves(this)
    this.#leaving.abort(stopped('pipeline before it had started'))
  }

  async #until(ms: number, cut: () => void): Promise<void> {
    await within(ms, this.ended, cut).catch(() => undefined)
  }
}

/** A transaction that is under way is waited for so long. */
const STOP_MS = 5_000

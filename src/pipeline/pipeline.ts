import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import type { Demand } from '../demand/demand.ts'
import { SluiceError } from '../errors.ts'
import { type BatchHandler, checkFunction, type Handler, type HandlerKind } from '../handle/handler.ts'
import { handlerInside } from '../handle/inside.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Consumers } from '../process/consumers.ts'
import type { QueueDefinitions } from '../queues.ts'
import { SettledCollector, type SettledMessage, type SettledMessages } from '../settle/settled-messages.ts'
import { Meter } from '../statistics/meter.ts'
import type { HandlingOf } from './handling.ts'
import { onErrorOf } from './on-error.ts'
import { RunningPipeline } from './running-pipeline.ts'

/** A pipeline without its handler. */
export type Pipeline<
  Payload,
  Definitions extends QueueDefinitions | undefined,
  In extends HandlerKind = 'transactional',
> = {
  /** The name of the queue; of a group, which reads a stream, `<stream>:<group>`. Its events bear this name. */
  readonly queue: string

  /**
   * Handles messages one by one; see {@link Handler}.
   *
   * @throws SluiceError OPTION_INVALID
   */
  handle(handler: Handler<Payload, Definitions, In>): RunnablePipeline

  /**
   * Handles whole batches; see {@link BatchHandler}.
   *
   * @throws SluiceError OPTION_INVALID
   */
  handleBatch(handler: BatchHandler<Payload, Definitions, In>): RunnablePipeline
}

/** A {@link Pipeline}. The payload and the context get their types from the queue's definition, which validation has enforced. */
export class PipelineOfPlan {
  /** What errors and consoles call it. */
  static readonly name = 'Pipeline'
  readonly queue: string
  readonly #plan: PipelinePlan
  readonly #consumers: Consumers

  constructor(plan: PipelinePlan, consumers: Consumers) {
    this.queue = plan.queue
    this.#plan = plan
    this.#consumers = consumers
  }

  handle(handler: (message: unknown, context: unknown) => unknown): RunnablePipeline {
    const each = { kind: 'each', handle: checkFunction('handle', handler) } as const
    return new RunnablePipeline(this.#plan, () => ({ handler: each }), this.#consumers)
  }

  handleBatch(handler: (messages: unknown, context: unknown) => unknown): RunnablePipeline {
    const batch = { kind: 'batch', handle: checkFunction('handleBatch', handler) } as const
    return new RunnablePipeline(this.#plan, () => ({ handler: batch }), this.#consumers)
  }
}

/** A pipeline with its handler, or a relay. */
export class RunnablePipeline {
  /** The name of the queue; of a group, which reads a stream, `<stream>:<group>`. Its events bear this name. */
  readonly queue: string
  readonly #plan: PipelinePlan
  readonly #handlingOf: HandlingOf
  readonly #consumers: Consumers
  #running: RunningPipeline | undefined

  constructor(plan: PipelinePlan, handlingOf: HandlingOf, consumers: Consumers) {
    this.queue = plan.queue
    this.#plan = plan
    this.#handlingOf = handlingOf
    this.#consumers = consumers
  }

  /**
   * Handles all messages that are due now, batch after batch in one transaction each, and returns the outcomes of the
   * messages: the first 10,000 in the order in which they were settled, and `counts` of all. For tests and for
   * processes that are started by cron. It closes the connections that it has opened a moment later, so the process can
   * end. When the Sluice stops, it ends with the batch in flight, and returns what is settled by then.
   *
   * @throws SluiceError UNREACHABLE and the like
   */
  async runOnce(): Promise<SettledMessages> {
    const [plan, meter] = [this.#plan, new Meter()]
    const settled = new SettledCollector()
    let demand: Demand | undefined
    const end = () => void demand?.drain()
    const consumption = {
      plan,
      ...this.#handlingOf('once'),
      meter,
      calledIn: handlerInside(),
      onSettled: (messages: readonly SettledMessage[]) => settled.add(messages),
      onFailed: onErrorOf(plan, this.#consumers.report, { pause: end, stop: end }),
    }
    await this.#consumers.runOnce(consumption, (made) => {
      demand = made
    })
    return settled.messages
  }

  /**
   * Starts to consume, connecting first if need be: it waits for a database that is down, reporting
   * `connection.failed`. What waiting does not cure (a missing schema, a refused login) rejects
   * {@link RunningPipeline.ended}, which ends the process unless it is handled. It runs once: start it again when it has been
   * drained or stopped. For more at a time, set `concurrency`.
   *
   * @param options.delay how long to wait before that, as after a deployment, up to 24 h. @default 0
   * @throws SluiceError OPTION_INVALID; PIPELINE_STARTED if it runs
   */
  start(options: { readonly delay?: Duration | undefined } = {}): RunningPipeline {
    checkKeys('start', options, ['delay'], "As in start({ delay: '10s' })")
    const delayMs = toMsWithin('start.delay', options.delay ?? 0, 0, '24h')
    if (this.#running !== undefined && this.#consumers.goesOn(this.#running)) throw alreadyStarted(this.queue)
    this.#running = new RunningPipeline(this.#plan, this.#handlingOf('on'), this.#consumers, delayMs)
    return this.#running
  }

  /** The same as {@link start}. What it returns can be unsubscribed, with an RxJS Subscription that it is added to. */
  subscribe(): RunningPipeline {
    return this.start()
  }
}

function alreadyStarted(queue: string): SluiceError {
  const what = `start(): expected a pipeline that does not run, received one of ${queue} that does`
  const remedy = 'For more at a time, set concurrency, or call setConcurrency() of what the first start() has returned'
  return new SluiceError('PIPELINE_STARTED', `${what}. ${remedy}. A second pipeline of the queue may run beside it`)
}

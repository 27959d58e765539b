import { type Duration, toMsWithin } from '../../basics/time/duration.ts'
import { expected } from '../../errors.ts'
import { checkQueueName, type QueueDefinitions, type QueueName } from '../../queues.ts'
import { type Explanation, explainQueue } from '../../table/operate/explanations.ts'
import { clearSome, freeSomeKeys } from '../../table/operate/messages/change-message.ts'
import { type QueueActivity, readActivity } from '../../table/operate/queues/activity.ts'
import { type BacklogSample, readBacklogHistory } from '../../table/operate/queues/backlog-history.ts'
import { type QueueBacklog, readBacklogs } from '../../table/operate/queues/backlogs.ts'
import { type LimitStatus, readLimits } from '../../table/operate/queues/limit-status.ts'
import type { Moved } from '../../table/operate/queues/move-messages.ts'
import { pauseQueue, resumeQueue } from '../../table/operate/queues/queue-settings.ts'
import { type QueueStatus, readQueueNames, readQueues } from '../../table/operate/queues/queue-status.ts'
import type { Operations } from '../operations.ts'
import { flag, type Reader, readFields } from '../options.ts'
import { inSteps, moveInSteps } from './in-steps.ts'
import {
  CHANGE,
  PAUSE,
  type QueueChangeOptions,
  type QueueSettings,
  QueueSettingsInDatabase,
} from './queue-settings.ts'
import { readWaitingFilter, type WaitingFilter } from './waiting-filter.ts'

/** What `operate.queues.freeKeys` does. */
export interface FreeKeysOptions {
  /** Only counts the keys. @default false */
  readonly dryRun?: boolean | undefined
}

/** Which activity `operate.queues.activity` reads. */
export interface QueueActivityOptions<Name extends string = string> {
  /** Only this queue; `stream:group` for a group. @default all */
  readonly queue?: Name | undefined
  /** How far back, 1 minute to 2 days. @default '1h' */
  readonly since?: Duration | undefined
  /** How long a step is, 1 minute to 2 days. @default '1m' */
  readonly step?: Duration | undefined
}

/** In milliseconds. */
function period(byDefault: Duration): Reader<number> {
  return (value = byDefault, what) => toMsWithin(what, value, '1m', '2d')
}

/** `sluice.operate.queues` */
export type Queues<Definitions extends QueueDefinitions | undefined = undefined> = {
  /** Settings that change while workers run: list, get, set and unset them. */
  readonly settings: QueueSettings<Definitions>

  /**
   * Counts the messages of each queue that wait, run and have failed, by name. The counts are exact: about 0.4 s for a
   * million messages and dead letters.
   *
   * @param options.queue only this queue; the list is empty if the queue is.
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly queue?: QueueName<Definitions> }): Promise<readonly QueueStatus[]>

  /**
   * Counts what each queue has to do, up to 10,000 messages and dead letters of each, by name. It costs a few milliseconds per
   * queue, however many messages there are: {@link list} counts all, and tells their states apart.
   *
   * @param options.queue only this queue; the list is empty if the queue is.
   * @throws SluiceError as {@link Operate}
   *
   * @example const busy = (await sluice.operate.queues.backlogs()).filter(({ due }) => due === 10_000)
   */
  backlogs(options?: { readonly queue?: QueueName<Definitions> }): Promise<readonly QueueBacklog[]>

  /**
   * Lists the names of all queues that have messages, dead letters or workers. It counts nothing.
   *
   * @throws SluiceError as {@link Operate}
   */
  names(): Promise<readonly string[]>

  /**
   * Lists the limits of each queue that has some, and of each of its tenants with messages, and how much of them is
   * used. It counts the messages of these queues.
   *
   * @param options.queue only this queue.
   * @throws SluiceError as {@link Operate}
   *
   * @example const waiting = (await sluice.operate.queues.limits({ queue: 'emails' })).filter(({ ready }) => ready > 0)
   */
  limits(options?: { readonly queue?: QueueName<Definitions> }): Promise<readonly LimitStatus[]>

  /**
   * What all workers have done in the last hours, by queue and in steps of time: counts, waiting times and handling times. It is
   * known for two days, also of processes that have ended, and a minute late. Steps in which nothing was done are left out.
   *
   * @param options.queue only this queue; `stream:group` for a group. @default all
   * @param options.since how far back, 1 minute to 2 days. @default '1h'
   * @param options.step how long a step is, 1 minute to 2 days. @default '1m'
   * @throws SluiceError as {@link Operate}
   *
   * @example const steps = await sluice.operate.queues.activity({ queue: 'emails', since: '6h', step: '15m' })
   */
  activity(options?: QueueActivityOptions<QueueName<Definitions>>): Promise<readonly QueueActivity[]>

  /**
   * What each queue had to do in the last hours, and each group had to read. A pass of maintenance writes it down, which is every five
   * minutes by default.
   *
   * @param options.queue only this queue; `stream:group` for a group. @default all that had something
   * @param options.since how far back, 1 minute to 2 days. @default '1h'
   * @throws SluiceError as {@link Operate}
   *
   * @example const samples = await sluice.operate.queues.backlogHistory({ queue: 'emails', since: '6h' })
   */
  backlogHistory(options?: {
    readonly queue?: QueueName<Definitions>
    readonly since?: Duration
  }): Promise<readonly BacklogSample[]>

  /**
   * Explains why nothing moves in a queue, or says what moves: the main reason and the others. It looks at the first
   * messages of each priority, ordering slot and tenant, and at the first 1,000 that have failed, and counts no backlog.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { headline, others } = await sluice.operate.queues.explain('emails')
   */
  explain(queue: QueueName<Definitions>): Promise<Explanation>

  /**
   * Pauses a queue: no pipeline, claim or `pop` of any process takes messages from it until {@link resume}. What is in
   * flight continues, and messages can be enqueued. Workers apply it at once, or with their next poll.
   *
   * @param options.reason why, for others to see.
   * @param options.by who. @default the database user
   * @param options.tx your open transaction. @default one of its own
   * @returns false if it was paused already: it stays so since then. A new `reason`, with its `by`, replaces the old one.
   * @throws SluiceError as {@link Operate}
   *
   * @example await sluice.operate.queues.pause('emails', { by: 'ada', reason: 'the mail provider is down' })
   */
  pause(
    queue: QueueName<Definitions>,
    options?: QueueChangeOptions & { readonly reason?: string | undefined },
  ): Promise<boolean>

  /**
   * Ends the pause of a queue, and wakes its workers.
   *
   * @returns false if it was not paused.
   * @throws SluiceError as {@link Operate}
   */
  resume(queue: QueueName<Definitions>, options?: QueueChangeOptions): Promise<boolean>

  /**
   * Removes the messages of a queue that are not in flight, or those that match every filter given, in steps of at most
   * 1,000, each in a transaction of its own. If one fails, the steps before it are done.
   *
   * @returns how many.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING
   *
   * @example
   * const count = await sluice.operate.queues.clear('emails', { type: 'newsletter', dryRun: true })
   */
  clear(queue: QueueName<Definitions>, filter?: WaitingFilter): Promise<number>

  /**
   * Moves the messages of a queue that are not in flight, or those that match every filter given, to another queue: after
   * messages were enqueued under a wrong name. They keep their ids, attempts and times to live, and what is due becomes due
   * now. It takes steps of at most 1,000, each in a transaction of its own: if one fails, the steps before it are done. Dead
   * letters stay.
   *
   * @param options.dryRun only counts; what a session has locked or a key holds counts as `moved` then. @default false
   * @returns how many it has moved, and how many it has left where they are, by reason.
   * @throws SluiceError as {@link Operate}, and ROWS_MISSING
   *
   * @example const { moved, duplicates } = await sluice.operate.queues.move('ordres', 'orders')
   */
  move(from: string, to: QueueName<Definitions>, filter?: WaitingFilter): Promise<Moved>

  /**
   * Frees all dedupe keys of a queue that are kept after their messages have gone, as `messages.freeKey` frees
   * one, in steps of at most 1,000: after {@link clear}, the queue is as if it were new. A key that a producer checks
   * at that moment stays.
   *
   * @returns how many.
   * @throws SluiceError as {@link clear}
   *
   * @example const count = await sluice.operate.queues.freeKeys('reports', { dryRun: true })
   */
  freeKeys(queue: QueueName<Definitions>, options?: FreeKeysOptions): Promise<number>
}

/** Answers the calls of {@link Queues}. */
export class QueuesInDatabase implements Queues {
  readonly settings: QueueSettings
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.settings = new QueueSettingsInDatabase(operations)
    this.#operations = operations
  }

  async list(options: { readonly queue?: string } = {}): Promise<readonly QueueStatus[]> {
    const queue = this.#only('queues.list', options)
    return this.#operations.count((execute) => readQueues(execute, queue))
  }

  async backlogs(options: { readonly queue?: string } = {}): Promise<readonly QueueBacklog[]> {
    const queue = this.#only('queues.backlogs', options)
    return this.#operations.read((execute) => readBacklogs(execute, queue))
  }

  async names(): Promise<readonly string[]> {
    return this.#operations.read(readQueueNames)
  }

  async limits(options: { readonly queue?: string } = {}): Promise<readonly LimitStatus[]> {
    const queue = this.#only('queues.limits', options)
    return this.#operations.count((execute) => readLimits(execute, queue))
  }

  async activity(options: QueueActivityOptions = {}): Promise<readonly QueueActivity[]> {
    const readers = { queue: this.#operations.queueOrNull, since: period('1h'), step: period('1m') }
    const { queue, since, step } = readFields('queues.activity', options, readers)
    return this.#operations.read((execute) => readActivity(execute, queue, since, step))
  }

  async backlogHistory(
    options: { readonly queue?: string; readonly since?: Duration } = {},
  ): Promise<readonly BacklogSample[]> {
    const readers = { queue: this.#operations.queueOrNull, since: period('1h') }
    const { queue, since } = readFields('queues.backlogHistory', options, readers)
    return this.#operations.read((execute) => readBacklogHistory(execute, queue, since))
  }

  async explain(queue: string): Promise<Explanation> {
    const name = this.#operations.queue(queue)
    return this.#operations.read((execute) => explainQueue(execute, name))
  }

  async pause(
    queue: string,
    options: QueueChangeOptions & { readonly reason?: string | undefined } = {},
  ): Promise<boolean> {
    const name = this.#operations.queue(queue)
    const { by, reason, tx } = readFields('queues.pause', options, PAUSE)
    return this.#operations.change((execute) => pauseQueue(execute, name, by, reason), tx)
  }

  async resume(queue: string, options: QueueChangeOptions = {}): Promise<boolean> {
    const name = this.#operations.queue(queue)
    const { by, tx } = readFields('queues.resume', options, CHANGE)
    return this.#operations.change((execute) => resumeQueue(execute, name, by), tx)
  }

  async clear(queue: string, ...filter: readonly [filter?: WaitingFilter]): Promise<number> {
    const name = this.#operations.queue(queue)
    const match = readWaitingFilter('queues.clear', filter, "As in queues.clear('emails', { type: 'order.paid' })")
    return inSteps(this.#operations, (execute, after) => clearSome(execute, name, after, match))
  }

  async move(from: string, to: string, ...filter: readonly [filter?: WaitingFilter]): Promise<Moved> {
    // The code need not define a wrong name.
    const [source, target] = [checkQueueName(from, undefined), this.#operations.queue(to)]
    if (source === target) throw expected('OPTION_INVALID', 'queues.move.to', 'another queue', to)
    const match = readWaitingFilter(
      'queues.move',
      filter,
      "As in queues.move('ordres', 'orders', { type: 'order.paid' })",
    )
    return moveInSteps(this.#operations, source, target, match)
  }

  async freeKeys(queue: string, options: FreeKeysOptions = {}): Promise<number> {
    const name = this.#operations.queue(queue)
    const remedy = "As in queues.freeKeys('reports', { dryRun: true })"
    const { dryRun } = readFields('queues.freeKeys', options, { dryRun: flag }, remedy)
    return inSteps(this.#operations, (execute, after) => freeSomeKeys(execute, name, after, dryRun))
  }

  #only(what: string, options: { readonly queue?: string }): string | null {
    return readFields(what, options, { queue: this.#operations.queueOrNull }, `As in ${what}({ queue: 'emails' })`)
      .queue
  }
}

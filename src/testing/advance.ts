import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMs } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import { internalsOf } from '../process/internals.ts'
import type { QueueDefinitions, QueueName } from '../queues.ts'
import type { Sluice } from '../sluice.ts'
import { checkOperatedQueue, type StreamDefinitions, type WithGroupQueues } from '../streams.ts'
import { shiftTimes } from '../table/testing/shift-times.ts'

/** For what `advance` lets time pass. */
export interface AdvanceOptions<Name extends string = string> {
  /** Only this queue, or this group: `<stream>:<group>`. @default all queues, groups and schedules of the database */
  readonly queue?: Name | undefined
}

/**
 * Lets time pass in the database: what would be due, or over, after this time is so now. It moves due times, retries, times to
 * live, leases, claims, kept dedupe keys, rates, schedules, held keys and partitions, and the age of dead letters, of history
 * and of receipts. It does not move clocks of processes, such as the timeout of a handler, and leaves what a transaction has
 * locked, such as the messages of a batch in flight, as it is. It writes to the tables of the schema, so it needs their owner.
 *
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, UNREACHABLE; QUEUE_UNKNOWN also if neither the database nor this Sluice
 * has had anything to do with the queue; and the server's error if the login may not write to the tables
 *
 * @example
 * await advance(sluice, '5m')
 * const [secondAttempt] = await runDue(emails)
 */
export async function advance<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
>(
  sluice: Sluice<Definitions, Streams>,
  time: Duration,
  options: AdvanceOptions<QueueName<WithGroupQueues<Definitions, Streams>>> = {},
): Promise<void> {
  const { enqueueContext, pools } = internalsOf(sluice)
  checkKeys('advance', options, ['queue'], "As in advance(sluice, '5m', { queue: 'emails' })")
  const ms = toMs(time, 'advance')
  const { queue } = options
  const name = queue === undefined ? null : checkOperatedQueue(queue, enqueueContext)
  const connections = await pools()
  const changed = await connections.inOwnTransaction((execute) => shiftTimes(execute, ms, name))
  if (name !== null && changed === 0) await checkKnown(sluice, name)
}

/**
 * Of a queue that has nothing now. It may have been handled, by this process: nothing in the database knows that.
 *
 * @throws SluiceError QUEUE_UNKNOWN
 */
async function checkKnown(sluice: Pick<Sluice, 'metrics' | 'operate'>, queue: string): Promise<void> {
  const { consumed, enqueued } = sluice.metrics()
  if (Object.hasOwn(consumed, queue) || Object.hasOwn(enqueued, queue)) return
  const { reason, explanation } = (await sluice.operate.queues.explain(queue)).headline
  if (reason === 'unknown_queue')
    throw expected('QUEUE_UNKNOWN', 'advance.queue', 'a queue that there is', queue, explanation)
}

import { internalsOf } from '../process/internals.ts'
import { checkQueueName, type QueueDefinitions, type QueueName } from '../queues.ts'
import type { Sluice } from '../sluice.ts'
import { refuseStream, type StreamDefinitions } from '../streams.ts'
import { clearQueueWholly } from '../table/testing/clear-queue.ts'

/**
 * Makes a queue as if it were new: removes its messages, dead letters and history, the dedupe keys that it keeps, the receipts of
 * its inbox and its claims, frees all ordering keys and fills its rates. Its settings, schedules and endpoints stay. It waits
 * up to 15 s for batches in flight. It writes to the tables of the schema, so it needs their owner.
 *
 * @throws SluiceError OPTION_INVALID, QUEUE_NAME_INVALID, QUEUE_UNKNOWN, UNREACHABLE, and the server's error if the login may
 * not write to the tables, or a batch is in flight for longer
 *
 * @example beforeEach(() => clearQueue(sluice, 'emails'))
 */
export async function clearQueue<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
>(sluice: Sluice<Definitions, Streams>, queue: QueueName<Definitions>): Promise<void> {
  const { enqueueContext, pools } = internalsOf(sluice)
  refuseStream(queue, enqueueContext, 'move its groups with sluice.groups.seek')
  const name = checkQueueName(queue, enqueueContext.definitions)
  const connections = await pools()
  await connections.inOwnTransaction((execute) => clearQueueWholly(execute, name))
}

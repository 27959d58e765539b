import { hasSqlState } from '../../basics/sql-state.ts'
import { wordsOf } from '../../basics/words-of.ts'
import { SluiceError } from '../../errors.ts'
import { type Execute, statement } from '../statement.ts'

/**
 * Refuses to consume a queue that belongs to a group: only its group may. Asks only for names with a ':', one descent of
 * stream_group_pkey.
 *
 * @throws SluiceError QUEUE_UNKNOWN
 */
export async function refuseGroupQueue(execute: Execute, queue: string): Promise<void> {
  if (!queue.includes(':')) return
  try {
    await execute(REFUSE, [queue])
  } catch (error) {
    throw isOfGroup(error) ? ofGroup(error) : error
  }
}

/** The same, to send behind each claim: a group may be made while a pipeline runs. Undefined: no group can have the name. */
export function groupQueueCheck(queue: string): ((execute: Execute) => Promise<void>) | undefined {
  return queue.includes(':') ? (execute) => refuseGroupQueue(execute, queue) : undefined
}

/** The server's refusal of a queue that belongs to a group. */
export function isOfGroup(error: unknown): boolean {
  return hasSqlState(error, 'SL034')
}

export function ofGroup(cause: unknown): SluiceError {
  const remedy = 'Append to the stream with append(), and consume it with its group: pipeline(stream, { group })'
  return new SluiceError('QUEUE_UNKNOWN', `${wordsOf(cause)}. ${remedy}`, { cause })
}

const REFUSE = statement('group_queue_refuse', 'SELECT sluice_private.refuse_group_queue($1::text)')

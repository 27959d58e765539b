import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { SluiceError } from '../../errors.ts'
import { type Execute, statement } from '../statement.ts'

/**
 * Refuses to consume a queue that belongs to a group: only its group may. Sent before a pipeline starts, and behind each of its
 * claims, because a group may be made while it runs. It costs one descent of stream_group_pkey.
 *
 * @returns undefined: no group can have the name, which would have a ':'
 * @throws SluiceError QUEUE_UNKNOWN, when it is called
 */
export function groupQueueCheck(queue: string): ((execute: Execute) => Promise<void>) | undefined {
  return queue.includes(':') ? (execute) => refuse(execute, queue) : undefined
}

async function refuse(execute: Execute, queue: string): Promise<void> {
  try {
    await execute(REFUSE, [queue])
  } catch (error) {
    throw isOfGroup(error) ? ofGroup(error) : error
  }
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

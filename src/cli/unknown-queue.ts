import { DatabaseError } from 'pg'
import { nearest } from '../basics/nearest.ts'
import { readQueueNames } from '../table/inspect.ts'
import type { Execute } from '../table/statement.ts'

/**
 * What to say, with a space before it, about a queue of which there is nothing at all: the name that it may have been meant to
 * be. Nothing about one that exists.
 */
export async function didYouMean(execute: Execute, queue: string | undefined): Promise<string> {
  if (queue === undefined) return ''
  const names = await readQueueNames(execute).catch(orNone)
  if (names === undefined) return ''
  if (names.includes(queue)) return ''
  const [meant] = nearest(queue, names)
  return meant === undefined ? ' No queue has this name.' : ` No queue has this name. Did you mean "${meant}"?`
}

/** Who may not read all views is told nothing. */
function orNone(error: unknown): undefined {
  if (!(error instanceof DatabaseError) || error.code !== INSUFFICIENT_PRIVILEGE) throw error
}

const INSUFFICIENT_PRIVILEGE = '42501'

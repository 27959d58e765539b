import type { Step } from '../../table/operate/messages/change-message.ts'
import { addMoved, type Moved, type MovePlace, moveSome } from '../../table/operate/queues/move-messages.ts'
import type { WaitingMatch } from '../../table/operate/queues/waiting-match.ts'
import type { Execute } from '../../table/statement.ts'
import type { Operations } from '../operations.ts'

/**
 * Changes many rows in steps, each in a transaction of its own. If one fails, the steps before it are done.
 *
 * @param step a step from a place on; null: from the first row
 * @returns how many rows
 */
export async function inSteps(
  operations: Operations,
  step: (execute: Execute, after: string | null) => Promise<Step>,
): Promise<number> {
  let total = 0
  let after: string | null = null
  do {
    const from: string | null = after
    const { count, next }: Step = await operations.administer((execute) => step(execute, from))
    total += count
    after = next
  } while (after !== null)
  return total
}

/** The same for the messages of a queue that move to another. */
export async function moveInSteps(
  operations: Operations,
  source: string,
  target: string,
  match: WaitingMatch,
): Promise<Moved> {
  let total: Moved = { moved: 0, inFlight: 0, held: 0, duplicates: 0 }
  let place: MovePlace | null = { afterId: null, keys: [] }
  while (place !== null) {
    const begin: MovePlace = place
    const { next, ...step } = await operations.administer((execute) => moveSome(execute, source, target, begin, match))
    total = addMoved(total, step)
    place = next
  }
  return total
}

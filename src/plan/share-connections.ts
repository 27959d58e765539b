import { counted } from '../basics/words/sentences.ts'
import type { Shares } from '../connection/seats.ts'
import { SluiceError } from '../errors.ts'
import { MOST_TRANSACTIONS, type Mode } from './options.ts'

/** What a pipeline wants: in transactional mode a connection for each batch in flight. */
export interface Wanted {
  readonly queue: string
  readonly mode: Mode
  readonly concurrency: number
}

/** How the connections of a process are shared. */
export interface Sharing {
  readonly shares: Shares
  /** How many each pipeline has for its batches, in the order of the pipelines; of leased mode, 0. */
  readonly batches: readonly number[]
}

/**
 * Gives everyone the least that works, and then one after another one more, until each has what it wants. Calls get what is
 * left over.
 *
 * @param max of all
 * @param fixed how many of them are for control and listening
 * @throws SluiceError OPTION_INVALID with the least that works
 */
export function shareConnections(max: number, fixed: number, pipelines: readonly Wanted[]): Sharing {
  const takers = takersOf(pipelines)
  let left = max - fixed - takers.all.length
  if (left < 0) throw tooFew(max, max - left, fixed, pipelines)
  for (let served = true; served; ) {
    served = false
    for (const one of takers.all) {
      if (left === 0 || one.has >= one.wants) continue
      one.has += 1
      left -= 1
      served = true
    }
  }
  takers.calls.has += left
  const { batches, leased, calls } = takers
  const shares = {
    batches: batches.reduce((sum, one) => sum + (one?.has ?? 0), 0),
    claims: leased?.claims.has ?? 0,
    settlements: leased?.settlements.has ?? 0,
    transactions: leased?.transactions.has ?? 0,
    calls: calls.has,
  }
  return { shares, batches: batches.map((one) => one?.has ?? 0) }
}

/** What needs one connection, and can use more. */
interface Taker {
  has: number
  readonly wants: number
}

const taker = (wants: number): Taker => ({ has: 1, wants })

function takersOf(pipelines: readonly Wanted[]) {
  const batches = pipelines.map(({ mode, concurrency }) => (mode === 'leased' ? undefined : taker(concurrency)))
  const slow = pipelines.filter(({ mode }) => mode === 'leased')
  const transactions = slow.reduce((sum, { concurrency }) => sum + Math.min(concurrency, MOST_TRANSACTIONS), 0)
  const leased =
    slow.length === 0
      ? undefined
      : { claims: taker(slow.length), settlements: taker(slow.length), transactions: taker(transactions) }
  const calls = taker(CALLS)
  const all = [...batches.filter((one) => one !== undefined), ...(leased ? Object.values(leased) : []), calls]
  return { batches, leased, calls, all }
}

/** For enqueues in `ownTransaction`, operations and the like. A second one keeps a slow call from holding up the others. */
const CALLS = 2

function tooFew(max: number, least: number, fixed: number, pipelines: readonly Wanted[]): SluiceError {
  const transactional = pipelines.filter(({ mode }) => mode !== 'leased').length
  const leased = pipelines.length - transactional
  const parts = [
    ...(transactional > 0 ? [`${transactional} for ${counted(transactional, 'pipeline')} in transactional mode`] : []),
    ...(leased > 0 ? [`3 for ${counted(leased, 'pipeline')} in leased mode`] : []),
    '1 for calls',
    `${fixed} for control and listening`,
  ]
  const remedy = 'Raise it, or start fewer pipelines in this process'
  return new SluiceError(
    'OPTION_INVALID',
    `maxConnections: expected at least ${least} (${parts.join(', ')}), received ${max}. ${remedy}`,
  )
}

import { type Row, textOf } from './statement.ts'

/** Which transactions ran when a claim looked. */
export interface ClaimSnapshot {
  /** The oldest of them. */
  readonly xmin: bigint
  /**
   * The claim's own, which is higher than any given out before. (Not the snapshot's xmax: that is only one more than
   * the last to end, and a running transaction can be above it.)
   */
  readonly xid: bigint
  /** All that were running, and perhaps some that were parts of one. Undefined if they are too many to remember. */
  readonly running: ReadonlySet<bigint> | undefined
}

/**
 * Each savepoint has an id of its own, so one transaction can put 100,000 of them above the last to end. The next claim
 * that follows the end of any later transaction, this claim for instance, sees few again.
 */
const MOST_RUNNING = 2_000

/** All that are not below the last to end count as running, up to the claim's own. */
export function toSnapshot(row: Row): ClaimSnapshot {
  const xid = BigInt(textOf(row, 'xid'))
  const [, xmax = '0', running = ''] = textOf(row, 'snapshot').split(':')
  const ids = running.split(',').filter((text) => text !== '')
  return { xmin: BigInt(textOf(row, 'xmin')), xid, running: withAll(ids.map(BigInt), BigInt(xmax), xid) }
}

function withAll(ids: readonly bigint[], from: bigint, before: bigint): ReadonlySet<bigint> | undefined {
  const count = Number(before - from)
  if (ids.length + count > MOST_RUNNING) return undefined
  return new Set([...ids, ...Array.from({ length: count }, (_, at) => from + BigInt(at))])
}

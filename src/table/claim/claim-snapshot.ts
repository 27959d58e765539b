/** Which transactions ran when a claim looked. */
export interface ClaimSnapshot {
  /** The oldest running transaction. */
  readonly xmin: bigint
  /**
   * The claim's own transaction, which is higher than all before it. (Not the snapshot's xmax, which is only one more
   * than the last that has ended: a running transaction can be above it.)
   */
  readonly xid: bigint
  /** All that were running, perhaps with some of their savepoints. Undefined if they are too many to remember. */
  readonly running: ReadonlySet<bigint> | undefined
}

/** The same as the server says it. */
export interface SnapshotText {
  readonly xmin: string
  readonly xid: string
  readonly snapshot: string
}

/**
 * Each savepoint has an id of its own, so one transaction can put 100,000 of them above the last that has ended. As
 * soon as any later transaction has ended, such as this claim's, the next claim sees few again.
 */
const MOST_RUNNING = 2_000

/** All above the last that has ended count as running, up to the claim's own. */
export function toSnapshot(said: SnapshotText): ClaimSnapshot {
  const xid = BigInt(said.xid)
  const [, xmax = '0', running = ''] = said.snapshot.split(':')
  const ids = running.split(',').filter((text) => text !== '')
  return { xmin: BigInt(said.xmin), xid, running: withAll(ids.map(BigInt), BigInt(xmax), xid) }
}

function withAll(ids: readonly bigint[], from: bigint, before: bigint): ReadonlySet<bigint> | undefined {
  const count = Number(before - from)
  if (ids.length + count > MOST_RUNNING) return undefined
  return new Set([...ids, ...Array.from({ length: count }, (_, at) => from + BigInt(at))])
}

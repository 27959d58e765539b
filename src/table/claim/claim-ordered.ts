import { bigintArray } from '../bigint-array.ts'
import { ofVersion } from '../rows-by-id.ts'
import type { Execute, Row, Statement } from '../statement.ts'
import { type ClaimedRows, toClaimedRows, toNothing } from './claim.ts'
import { CLAIM_FREE_SLOTS, LEASE_FREE_SLOTS } from './claim-free-slots.ts'
import { CLAIM_SLOTS, LEASE_SLOTS, MOST_WALKED } from './claim-slots.ts'
import { type ClaimSnapshot, type SnapshotText, toSnapshot } from './claim-snapshot.ts'
import { type Lease, leaseParams } from './lease.ts'
import { isBehind, type KeysOfSlots, type MissedMessage, missedOf } from './missed-message.ts'
import { slotContextOf, withSlots } from './slot-context.ts'
import { type PassedStretch, type SlotWalk, toWalk } from './slot-walk.ts'
import { CLAIM_WHOLE_QUEUE } from './whole-queue.ts'

/** The slot of all messages without a key, in a pipeline that orders the whole queue. */
export const WHOLE_QUEUE_SLOT = 256

/** A slot of a queue, and the id below which it holds no live row. */
export interface SlotPosition {
  readonly slot: number
  readonly id: string
}

/** What an ordered claim took, where the live rows of its locked slots begin, and the snapshot of both. */
export interface OrderedClaim extends ClaimedRows {
  readonly firstLive: ReadonlyMap<number, string>
  /** Undefined if the transaction had its id before the claim: the id then does not tell what ran at that time. */
  readonly snapshot: ClaimSnapshot | undefined
  /** Whether any key of each locked slot was held. */
  readonly anyHeld: ReadonlyMap<number, boolean>
  /** The walks over many rows that could not be taken. */
  readonly walks: readonly SlotWalk[]
  readonly missed: readonly MissedMessage[]
}

/**
 * Locks slots, and in them up to `limit` due messages in order of id, leaving out the keys that are held.
 *
 * The lock on the slot's row keeps a key to one batch at a time, across processes, and ends with the batch however that
 * ends. A check for an earlier message with the same key would take time in proportion to the key's backlog.
 * message_slot_idx (queue, slot, id) gives the messages in order. `held` comes from the locked slot row, which is read
 * in its newest version: a hold that another batch has just committed counts, although the rest of the statement sees
 * an older snapshot. A message that another session has locked, as an operator or a stranger may without
 * the slot, comes back as {@link MissedMessage}, and the later ones of its key are left out. `lock_due_again` locks each
 * message that has closed its key and is to be taken, and passes over those that others have locked. The inner LIMIT is for the
 * planner, as in `claim`. Slots are locked one at a time as the limit needs them, and only if they have a row.
 *
 * @param passed what earlier walks have found, so that the rows behind a held key are not read by every claim
 * @param leftOut keys of which no message is to be taken
 * @param share the most messages of a slot; a claim that leases has bounds of its own
 */
export async function claimSlots(
  execute: Execute,
  queue: string,
  floors: readonly SlotPosition[],
  limit: number,
  passed: readonly PassedStretch[] = [],
  lease?: Lease,
  leftOut: KeysOfSlots = {},
  share: number = limit,
): Promise<OrderedClaim> {
  const leaves = [
    passed.map(({ slot }) => slot),
    passed.map(({ firstId }) => firstId),
    passed.map(({ lastId }) => lastId),
    passed.map(({ untilUs }) => untilUs),
    passed.map(({ running }) => `{${running.join()}}`),
    passed.map(({ closed }) => JSON.stringify(closed)),
    passed.map(({ held }) => JSON.stringify(held)),
    JSON.stringify(leftOut),
  ]
  const statement = lease === undefined ? CLAIM_SLOTS : ofVersion(LEASE_SLOTS, lease.serverVersion)
  const others = [...leaves, ...lastParams(lease, share)]
  return toOrderedClaim(await claimBy(statement, execute, queue, floors, limit, others))
}

/** The same, but of a slot in which a key is held it only reports that. */
export async function claimFreeSlots(
  execute: Execute,
  queue: string,
  floors: readonly SlotPosition[],
  limit: number,
  lease?: Lease,
  share: number = limit,
): Promise<OrderedClaim> {
  const statement = lease === undefined ? CLAIM_FREE_SLOTS : ofVersion(LEASE_FREE_SLOTS, lease.serverVersion)
  return toOrderedClaim(await claimBy(statement, execute, queue, floors, limit, lastParams(lease, share)))
}

function lastParams(lease: Lease | undefined, share: number): readonly unknown[] {
  return lease === undefined ? [share] : leaseParams(lease)
}

/**
 * The same for all messages without a key, as one sequence in order of id: {@link WHOLE_QUEUE_SLOT} is the lock, and
 * the primary key (queue, id) gives the order. It never waits: it ends before the first message that another pipeline
 * has locked. A message that was handled after the claim's snapshot looks locked too, so an empty claim looks once
 * more.
 */
export async function claimWholeQueue(
  execute: Execute,
  queue: string,
  floor: SlotPosition,
  limit: number,
): Promise<OrderedClaim> {
  const claimOnce = () => claimBy(CLAIM_WHOLE_QUEUE, execute, queue, [floor], limit, [])
  const rows = await claimOnce()
  const isGone = (row: Row) => row.id === null && slotContextOf(row) !== undefined
  return toOrderedClaim(upToFirst(isGone, rows[0] && isGone(rows[0]) ? await claimOnce() : rows))
}

function claimBy(
  claimStatement: Statement,
  execute: Execute,
  queue: string,
  floors: readonly SlotPosition[],
  limit: number,
  others: readonly unknown[],
): Promise<readonly Row[]> {
  const slots = bigintArray(floors.map((floor) => floor.slot))
  const ids = bigintArray(floors.map((floor) => floor.id))
  return execute(claimStatement, [queue, slots, ids, limit, ...others])
}

/** The lines before the one that ends the claim. The first line is always kept, because it has the clock. */
function upToFirst(ends: (row: Row) => boolean, rows: readonly Row[]): readonly Row[] {
  const end = rows.findIndex(ends)
  return end < 0 ? rows : rows.slice(0, Math.max(end, 1))
}

function toOrderedClaim(rows: readonly Row[]): OrderedClaim {
  const missed = missedOf(rows)
  const messages = rows.filter((row) => row.id !== null && !isBehind(row, missed))
  const firstLive = new Map<number, string>()
  const anyHeld = new Map<number, boolean>()
  const walks: SlotWalk[] = []
  let fresh: SnapshotText | undefined
  for (const [row, slot] of withSlots(rows)) {
    firstLive.set(slot.slot, slot.firstLive)
    anyHeld.set(slot.slot, slot.anyHeld)
    if (slot.xid !== undefined) fresh ??= { ...slot, xid: slot.xid }
    const walk = toWalk(row, slot.slot, slot.firstLive, MOST_WALKED)
    if (walk !== undefined) walks.push(walk)
  }
  const claim = messages.length > 0 ? toClaimedRows(messages) : toNothing(rows)
  return { ...claim, firstLive, anyHeld, walks, missed, snapshot: fresh && toSnapshot(fresh) }
}

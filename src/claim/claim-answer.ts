import type { ClaimedRow, ServerTransaction } from '../table/claim/claim.ts'
import type { OrderedClaim } from '../table/claim/claim-ordered.ts'
import type { Lease } from '../table/claim/lease.ts'
import type { QueueScan } from '../table/claim/queue-scan.ts'

/** What a claim took, or when to claim again. */
export interface ClaimAnswer {
  readonly kind: MessageKind
  /** The database's clock when it claimed. */
  readonly nowUs: number
  /** This process's clock before that, so that a time computed from the two is never too early. */
  readonly sentAtMs: number
  /** The same when the answer came: a time computed from this one has always passed. */
  readonly answeredAtMs: number
  readonly transaction: ServerTransaction
  /** There is crash evidence about messages of the queue. */
  readonly evidence: boolean
  readonly rows: readonly ClaimedRow[]
  /** It took all that it asked for: there may be more. */
  readonly full: boolean
  /** Milliseconds until something may be due; null: nothing is waiting. */
  readonly nextDueMs: number | null
  /** It did not come to all that it may take: it read as many rows as one claim may, or missed some. Claim again now. */
  readonly partial: boolean
  /** The floors were learned from another server: the claim counts as having taken nothing. */
  readonly void: boolean
}

/** There is nothing more to ask for in this transaction. */
export function endsTransaction(answer: ClaimAnswer): boolean {
  return answer.void || answer.rows.length > 0
}

/** How long the message with the latest due time had been due, in milliseconds. */
export function youngestMs({ nowUs, rows }: ClaimAnswer): number {
  return (nowUs - Math.max(...rows.map((row) => row.dueUs))) / 1_000
}

/** How long the message with the earliest due time had been due, in milliseconds. */
export function oldestMs({ nowUs, rows }: ClaimAnswer): number {
  return (nowUs - Math.min(...rows.map((row) => row.dueUs))) / 1_000
}

/** Messages with ordering keys, or without. */
export type MessageKind = 'keyed' | 'unkeyed'

/** What a claim may take. */
export interface ClaimRequest {
  /** The most messages. @default a batch */
  readonly most?: number | undefined
  /** It also leases the messages, for the time after the transaction. */
  readonly lease?: Lease | undefined
  /** The messages to take: the transaction has locked them already. */
  readonly locked?: readonly string[] | undefined
  /** Messages of this kind alone. @default both kinds in turn */
  readonly kind?: MessageKind | undefined
}

/** A claim that has been sent; its answers may be awaited later. */
export interface SentClaim {
  /** They apply to later claims in the same transaction, too. */
  readonly terms: ClaimRequest
  readonly first: Promise<ClaimAnswer>
  /** It is on its way: later statements come behind it. The very first claim waits for a scan. */
  readonly atOnce: boolean
  /** Sent behind it when a sweep was due; the very first one went before it. */
  readonly scan: Promise<QueueScan> | undefined
}

/** It has not read all rows that it may take: a walk ended early, or a slot that it believed free has held keys. */
export function mayHaveMore({ walks, anyHeld }: Partial<OrderedClaim>, heldKnown: boolean): boolean {
  if (walks?.some((walk) => walk.partial)) return true
  return !heldKnown && [...(anyHeld?.values() ?? [])].includes(true)
}

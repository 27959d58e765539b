import { dropMessages } from '../table/settle/drop.ts'
import type { Kept } from '../table/settle/keep.ts'
import { type KeptKey, keepKeys } from '../table/settle/keep-keys.ts'
import {
  ackAndKeep,
  ackMessages,
  type Dead,
  deadLetterMessages,
  forgetEvidence,
  type HeldKey,
  holdKeys,
  type Postponed,
  postponeMessages,
  wakeSleepers,
} from '../table/settle/settle.ts'
import type { Execute } from '../table/statement.ts'
import { allAnswered } from '../transaction/all-answered.ts'

/** The rows of a settlement. */
export interface SettlementWrites {
  readonly acked: readonly string[]
  /** Those of them whose dedupe keys stay taken. */
  readonly kept: readonly KeptKey[]
  readonly postponed: readonly Postponed[]
  readonly dead: readonly Dead[]
  /** Of messages that were not handled. */
  readonly expired: readonly string[]
  readonly cancelled: readonly string[]
  readonly nowUs: number
}

/** What is written besides in the transaction of a batch. */
export interface BatchWrites extends SettlementWrites {
  readonly held: readonly HeldKey[]
  /** Messages whose evidence goes. */
  readonly forgotten: readonly string[]
  /** If the queue keeps its history now. */
  readonly history: Kept | undefined
}

export interface WrittenBatch {
  readonly queue: string
  /** The database's clock when the batch was claimed. */
  readonly claimedUs: number
  readonly serverVersion: number
}

/** Whether a message is to be tried again at once. */
export function anyDue({ postponed, nowUs }: Pick<SettlementWrites, 'postponed' | 'nowUs'>): boolean {
  return postponed.some(({ dueUs }) => dueUs <= nowUs)
}

/** Sends the statements that have rows to write, without waiting in between. */
export async function writeSettlement(execute: Execute, writes: BatchWrites, batch: WrittenBatch): Promise<void> {
  const { queue, claimedUs, serverVersion } = batch
  const { acked, kept, postponed, held, dead, expired, cancelled, forgotten, history, nowUs } = writes
  const sent: Promise<void>[] = []
  if (kept.length > 0) sent.push(keepKeys(execute, queue, kept, serverVersion))
  if (acked.length > 0 && history === undefined) sent.push(ackMessages(execute, queue, acked, serverVersion))
  if (acked.length > 0 && history !== undefined) sent.push(ackAndKeep(execute, queue, acked, history, serverVersion))
  if (postponed.length > 0) sent.push(postponeMessages(execute, queue, postponed, nowUs))
  if (anyDue(writes)) sent.push(wakeSleepers(execute, queue))
  if (held.length > 0) sent.push(holdKeys(execute, queue, held, claimedUs))
  if (dead.length > 0) sent.push(deadLetterMessages(execute, queue, dead))
  if (expired.length > 0) sent.push(dropMessages(execute, queue, expired, 'expired'))
  if (cancelled.length > 0) sent.push(dropMessages(execute, queue, cancelled, 'cancelled'))
  if (forgotten.length > 0) sent.push(forgetEvidence(execute, queue, forgotten))
  await allAnswered(sent)
}

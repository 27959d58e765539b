import { checkAlphabet, mayHoldForeign } from '../enqueue/alphabet-check.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { chunksOf, namesAt } from '../enqueue/read-list.ts'
import { atOnce, ownTransaction, within } from '../enqueue/within.ts'
import { insertMessages } from '../table/enqueue/insert.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { enqueueReceived, type ReceivedRows } from '../table/receipt/enqueue-received.ts'
import { buryReceived, type ReceiptKey, writeReceipts } from '../table/receipt/receive.ts'
import type { Execute } from '../table/statement.ts'
import type { Incoming } from './incoming.ts'
import type { InboxPlan } from './options.ts'

/** What a transaction has made of the messages of a batch. */
export interface Stored {
  readonly enqueued: number
  readonly duplicates: number
  readonly letters: readonly { readonly id: string; readonly type: string | null; readonly reason: string }[]
}

/**
 * Stores the messages of a batch in one transaction: a receipt of each, and those that had none in their order.
 *
 * @throws SluiceError as `enqueueMany`, and the server's errors: then nothing is stored. After COMMIT_FAILED and UNREACHABLE it may be:
 * to store the batch again enqueues none of it twice.
 */
export async function storeBatch(
  context: EnqueueContext,
  plan: InboxPlan,
  batch: readonly Incoming[],
): Promise<Stored> {
  let letters: Stored['letters'] = []
  const rows = batch.flatMap(({ content }) => (content.kind === 'row' ? [content.row] : []))
  const enqueued = await context.sends.run('enqueue', plan.queue, rows, async (marked) => {
    const received = receivedRows(context, batch, marked)
    if (received !== undefined)
      return atOnce(context, (execute) => enqueueReceived(execute, plan.queue, received, plan.retentionMs))
    return within(context, ownTransaction, { words: 'a batch of an inbox' }, async (execute) => {
      const fresh = await freshOf(execute, plan, batch)
      letters = await buryAll(context, execute, plan.queue, fresh)
      return insertAll(context, execute, plan.queue, rowsOf(batch, marked, fresh))
    })
  })
  return { enqueued: enqueued.length, letters, duplicates: batch.length - enqueued.length - letters.length }
}

/** The batch for one statement, which takes neither dead letters nor messages without an id; undefined: it has some, or is too large. */
function receivedRows(
  { alphabet }: EnqueueContext,
  batch: readonly Incoming[],
  rows: readonly InsertRow[],
): ReceivedRows | undefined {
  if (rows.length < batch.length || rows.some((row) => mayHoldForeign(alphabet, row))) return undefined
  const keys = batch.flatMap(({ key }) => key ?? [])
  const [chunk = []] = chunksOf(rows)
  return keys.length === batch.length && chunk.length === rows.length ? { keys, rows } : undefined
}

/** Those without a receipt until now. A message without an id has none, and is always new. */
async function freshOf(
  execute: Execute,
  { queue, retentionMs }: InboxPlan,
  batch: readonly Incoming[],
): Promise<ReadonlySet<Incoming>> {
  const keyed = batch.filter((one): one is Incoming & { readonly key: ReceiptKey } => one.key !== undefined)
  const keys = keyed.map(({ key }) => key)
  const places = keys.length === 0 ? [] : await writeReceipts(execute, queue, keys, retentionMs)
  const isFresh = new Set<Incoming | undefined>(places.map((place) => keyed[place]))
  return new Set(batch.filter((one) => one.key === undefined || isFresh.has(one)))
}

/** @param marked the rows of the batch in their order, perhaps with a trace context */
function rowsOf(
  batch: readonly Incoming[],
  marked: readonly InsertRow[],
  fresh: ReadonlySet<Incoming>,
): readonly InsertRow[] {
  return batch.filter(({ content }) => content.kind === 'row').flatMap((one, at) => (fresh.has(one) ? marked[at]! : []))
}

async function insertAll(
  context: EnqueueContext,
  execute: Execute,
  queue: string,
  rows: readonly InsertRow[],
): Promise<string[]> {
  if (rows.length === 0) return []
  await checkAlphabet(context.alphabet, execute, rows, (at) => namesAt('messages', at))
  const ids: string[] = []
  for (const chunk of chunksOf(rows)) ids.push(...(await insertMessages(execute, queue, chunk)))
  return ids
}

async function buryAll(
  { alphabet }: EnqueueContext,
  execute: Execute,
  queue: string,
  fresh: ReadonlySet<Incoming>,
): Promise<Stored['letters']> {
  const whole = [...fresh].flatMap(({ content }) => (content.kind === 'letter' ? [content.letter] : []))
  if (whole.length === 0) return []
  const reasons = whole.map(({ reason }) => reason)
  await alphabet.learnUnknown(execute, reasons)
  const letters = whole.map((letter) => ({ ...letter, reason: alphabet.fit(letter.reason) }))
  const ids: string[] = []
  for (const chunk of chunksOf(letters)) ids.push(...(await buryReceived(execute, queue, chunk)))
  return letters.map(({ type, reason }, at) => ({ id: ids[at] ?? '', type, reason }))
}

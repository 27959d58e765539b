import type { Alphabet } from '../session/alphabet.ts'
import { wakeSleepers } from '../table/settle/around.ts'
import { dropRows } from '../table/settle/drop.ts'
import type { Kept } from '../table/settle/keep.ts'
import { type KeptKey, keepKeys } from '../table/settle/keep-keys.ts'
import {
  ackRows,
  type DeadRow,
  deadLetterRows,
  type LaterRow,
  moveToHistory,
  postponeRows,
  type SettleIn,
} from '../table/settle/settle.ts'
import type { Execute } from '../table/statement.ts'
import { type Decided, isDue } from './decision.ts'

/** What decisions about rows of `sluice.message` are written with. */
export interface RowsIn extends SettleIn {
  /** What is stored of errors must fit the database's encoding. */
  readonly alphabet: Alphabet
  /** The database's clock now, or a little earlier: a failure must not seem to be later than the next one. */
  readonly nowUs: number
  /** The worker's name, if the queue keeps its history now. */
  readonly historyBy: string | undefined
  /** The database's clock when the message was claimed. */
  readonly claimedUs: (decided: Decided) => number
}

/** What writing such rows needs of a process. */
export interface RowsRuntime extends Pick<RowsIn, 'alphabet'> {
  readonly serverVersion: () => number
  /** The worker's name as the database can hold it, if the queue keeps a history of what has succeeded. */
  readonly historyBy: (queue: string) => string | undefined
}

/** Statements that are on their way. */
export interface SentDecisions {
  /** Of leased rows each resolves with the ids that it has found and written. */
  readonly written: readonly Promise<readonly string[]>[]
  /** All, in the order in which they were sent: the first that fails is why the others do. */
  readonly all: readonly Promise<unknown>[]
}

/** Sends the statements that decisions need, without waiting in between. */
export function sendDecisions(execute: Execute, rowsIn: RowsIn, decided: Iterable<Decided>): SentDecisions {
  const { acked, kept, later, dead, expired, cancelled, anyDue } = sorted(rowsIn, decided)
  const written: Promise<readonly string[]>[] = []
  const all: Promise<unknown>[] = []
  const writing = (sent: Promise<readonly string[]>) => {
    written.push(sent)
    all.push(sent)
  }
  if (kept.length > 0) all.push(keepKeys(execute, rowsIn, kept))
  if (acked.length > 0) writing(ack(execute, rowsIn, acked))
  if (later.length > 0) writing(postponeRows(execute, rowsIn, later, rowsIn.nowUs))
  if (anyDue) all.push(wakeSleepers(execute, rowsIn.queue))
  if (dead.length > 0) writing(deadLetterRows(execute, rowsIn, dead))
  if (expired.length > 0) writing(dropRows(execute, rowsIn, expired, 'expired'))
  if (cancelled.length > 0) writing(dropRows(execute, rowsIn, cancelled, 'cancelled'))
  return { written, all }
}

function ack(execute: Execute, rowsIn: RowsIn, acked: readonly Decided[]): Promise<readonly string[]> {
  const ids = acked.map(({ message }) => message.id)
  const { historyBy: worker, claimedUs } = rowsIn
  if (worker === undefined) return ackRows(execute, rowsIn, ids)
  const attempts = acked.map(({ message }) => message.attempt)
  const kept: Kept = { worker, attempts, claimedUs: acked.map(claimedUs) }
  return moveToHistory(execute, rowsIn, ids, kept)
}

/** The rows of each statement, with texts as the database can hold them. */
class Sorted {
  readonly acked: Decided[] = []
  readonly kept: KeptKey[] = []
  readonly later: LaterRow[] = []
  readonly dead: DeadRow[] = []
  readonly expired: string[] = []
  readonly cancelled: string[] = []
  /** A message is due again as soon as this is written. */
  anyDue = false
}

function sorted({ alphabet, nowUs }: RowsIn, decided: Iterable<Decided>): Sorted {
  const rows = new Sorted()
  for (const one of decided) {
    const { decision, message } = one
    const { id } = message
    rows.anyDue ||= isDue(one, nowUs)
    switch (decision.kind) {
      case 'gone':
        if (decision.why !== 'acked') rows[decision.why].push(id)
        else rows.acked.push(one)
        if (decision.keepKeyMs !== undefined) rows.kept.push({ id, forMs: decision.keepKeyMs })
        break
      case 'later':
        rows.later.push({ ...fitted(decision, alphabet), id })
        break
      case 'back':
        rows.later.push({ ...decision, id, error: null })
        break
      case 'dead':
        rows.dead.push({ ...fitted(decision, alphabet), id, reason: alphabet.fit(decision.reason) })
        break
      case 'blocked':
        throw new TypeError(`message ${id}: expected to be in a log, which is where a decision blocks a partition`)
    }
  }
  return rows
}

/** With its error and stack as the database can hold them. */
export function fitted<Failed extends Pick<LaterRow, 'error' | 'details'>>(failed: Failed, alphabet: Alphabet): Failed {
  const error = failed.error === null ? null : alphabet.fit(failed.error)
  const { stack, worker } = failed.details ?? {}
  if (stack === undefined || worker === undefined) return { ...failed, error }
  return { ...failed, error, details: { worker, stack: alphabet.fit(stack) } }
}

/** Asks about characters of errors, stacks and reasons that are not known yet. Without an answer they are escaped. */
export async function learnTexts(execute: Execute, alphabet: Alphabet, decided: Iterable<Decided>): Promise<void> {
  const texts = textsOf(decided)
  if (texts.length > 0) await alphabet.learnUnknown(execute, texts).catch(() => undefined)
}

/** The texts that decisions store. */
function textsOf(decided: Iterable<Decided>): readonly string[] {
  const texts: string[] = []
  for (const { decision } of decided) {
    if (decision.kind === 'gone' || decision.kind === 'back') continue
    if (decision.error !== null) texts.push(decision.error)
    if (decision.kind === 'dead') texts.push(decision.reason)
    if (decision.details?.stack !== undefined) texts.push(decision.details.stack)
  }
  return texts
}

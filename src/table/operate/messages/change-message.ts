import type { MessageState } from '../../../message.ts'
import type { InsertRow } from '../../enqueue/insert-row.ts'
import { requiringRows } from '../../rows-missing.ts'
import { type Execute, numberOf, only, type Row, statement, textOf, textOrNull } from '../../statement.ts'
import { matchArguments, matchParams, type WaitingMatch } from '../queues/waiting-match.ts'

/** What became of a message that was to be cancelled. */
export interface CancelAnswer {
  /**
   * `cancelled`: it is gone, and what its handler does has no effect through Sluice any more. `asked`: a transaction
   * has locked it, and its handler is asked to end. `nothing`: there is no such message, or it is dead.
   */
  readonly result: 'cancelled' | 'asked' | 'nothing'
  /** The state in which it was. */
  readonly state: MessageState | 'unknown'
}

/** What became of a message that was to be changed. */
export interface ChangeAnswer {
  /**
   * `refused`: it is not waiting, see `state`. `busy`: it holds its key, and a batch has locked the slot of the key:
   * nothing has changed, try again.
   */
  readonly result: 'changed' | 'refused' | 'busy'
  /** The state in which it was. */
  readonly state: MessageState | 'unknown'
}

/**
 * What happened to a dedupe key. `freed`: it was kept, and is free now. `free`: it was not taken. `taken`: a message
 * has it, and keeps it; {@link Operate.cancel} removes that.
 */
export type FreedKey = 'freed' | 'free' | 'taken'

/** Which message: by its id or by its dedupe key. One of the two is null. */
export interface MessageAddress {
  readonly id: string | null
  readonly dedupeKey: string | null
}

/** What can be changed, in the order of the arguments of `sluice.change`. */
const CHANGED = ['payload', 'headers', 'priority', 'type', 'schemaVersion', 'maxAttempts', 'ttlMs'] as const

/** What a change writes. What is left out stays as it was. */
export type MessageChange = Partial<Pick<InsertRow, (typeof CHANGED)[number]>>

/** Removes a message, unless a transaction has locked it: it waits for no lock. @throws SluiceError ROWS_MISSING */
export async function cancelMessage(
  execute: Execute,
  queue: string,
  { id, dedupeKey }: MessageAddress,
): Promise<CancelAnswer> {
  return answerOf(await requiringRows(execute(CANCEL, [queue, id, dedupeKey])))
}

/** Changes what a waiting message says. */
export async function changeMessage(
  execute: Execute,
  queue: string,
  { id, dedupeKey }: MessageAddress,
  change: MessageChange,
): Promise<ChangeAnswer> {
  return answerOf(await execute(CHANGE, [queue, id, ...CHANGED.map((name) => change[name] ?? null), dedupeKey]))
}

/** Makes a waiting message due after a delay, or at an instant in ISO 8601. */
export async function rescheduleMessage(
  execute: Execute,
  queue: string,
  { id, dedupeKey }: MessageAddress,
  { delayMs, dueAt }: { readonly delayMs: number | null; readonly dueAt: string | null },
): Promise<ChangeAnswer> {
  return answerOf(await execute(RESCHEDULE, [queue, id, delayMs, dueAt, dedupeKey]))
}

/** Makes a waiting message due now. */
export async function runMessageNow(
  execute: Execute,
  queue: string,
  { id, dedupeKey }: MessageAddress,
): Promise<ChangeAnswer> {
  return answerOf(await execute(RUN_NOW, [queue, id, dedupeKey]))
}

/** One step of a change of many rows: how many, and where the next step begins; null: it is done. */
export interface Step {
  readonly count: number
  readonly next: string | null
}

/** One step of a clearing. @throws SluiceError ROWS_MISSING */
export async function clearSome(
  execute: Execute,
  queue: string,
  afterId: string | null,
  match: WaitingMatch,
): Promise<Step> {
  const row = only(await requiringRows(execute(CLEAR, [queue, afterId, ...matchParams(match)])))
  return { count: numberOf(row, 'messages'), next: textOrNull(row, 'next_id') }
}

/** Frees a dedupe key that is kept although no message has it. Waits for a producer of the key, as another producer does. */
export async function freeKey(execute: Execute, queue: string, dedupeKey: string): Promise<FreedKey> {
  const row = only(await execute(FREE_KEY, [queue, dedupeKey]))
  return textOf(row, 'result') as FreedKey
}

/** One step of freeing all keys that are kept. */
export async function freeSomeKeys(
  execute: Execute,
  queue: string,
  afterKey: string | null,
  dryRun: boolean,
): Promise<Step> {
  const row = only(await execute(FREE_KEYS, [queue, afterKey, dryRun]))
  return { count: numberOf(row, 'keys'), next: textOrNull(row, 'next_key') }
}

function answerOf<Answer extends CancelAnswer | ChangeAnswer>(rows: readonly Row[]): Answer {
  const row = only(rows)
  return { result: textOf(row, 'result'), state: textOf(row, 'state') } as Answer
}

const CANCEL = statement(
  'message_cancel',
  'SELECT c.result, c.state FROM sluice.cancel($1::text, $2::bigint, $3::text) c',
)

const CHANGE = statement(
  'message_change',
  `
SELECT c.result, c.state
FROM sluice.change($1::text, $2::bigint, $3::text::jsonb, $4::text::jsonb, $5::integer, $6::text, $7::integer, $8::integer,
  $9::double precision * interval '1 millisecond', $10::text) c`,
)

const RESCHEDULE = statement(
  'message_reschedule',
  `
SELECT r.result, r.state
FROM sluice.reschedule($1::text, $2::bigint, $3::double precision * interval '1 millisecond', $4::text::timestamptz, $5::text) r`,
)

const RUN_NOW = statement(
  'message_run_now',
  'SELECT r.result, r.state FROM sluice.run_now($1::text, $2::bigint, $3::text) r',
)

const FREE_KEYS = statement(
  'keys_free',
  'SELECT f.keys, f.next_key FROM sluice.free_keys($1::text, $2::text, $3::boolean) f',
)

const FREE_KEY = statement('key_free', 'SELECT sluice.free_key($1::text, $2::text) AS result')

const CLEAR = statement(
  'clear_some',
  `
SELECT c.messages, c.next_id::text AS next_id
FROM sluice.clear_some($1::text, $2::bigint, ${matchArguments(3)}) c`,
)

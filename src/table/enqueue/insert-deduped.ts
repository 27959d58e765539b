import type { MessageState } from '../../message.ts'
import { ENQUEUE_OUTCOMES } from '../../message-options.ts'
import { type Execute, type Row, statement } from '../statement.ts'
import { NEXT_PARAMETER, numeric, ROW_ARGUMENTS, rowParams } from './insert-one.ts'
import type { InsertRow, RowDedupe } from './insert-row.ts'

/** A row with a dedupe key. */
export interface DedupedRow extends InsertRow {
  readonly dedupe: RowDedupe
}

/** The answer of an enqueue with a dedupe key. */
export interface EnqueueResult {
  /** The message that has the key now: the one that was added, or the one that was there. */
  readonly id: string
  /**
   * `added`: the key was free. `duplicate`: the key was taken, and nothing was written. `updated`, `debounced`: the
   * waiting message has the new content, and with `debounced` a later due time. `requeued`: a message was added that
   * follows the one in flight, or the succeeded one.
   */
  readonly outcome: (typeof ENQUEUE_OUTCOMES)[number]
  /**
   * The state of the message `id`. `completed`: it has succeeded, and the key is kept. `unknown`: it is gone, and the key
   * is throttled.
   */
  readonly state: MessageState | 'completed' | 'unknown'
}

/** What an enqueue returns: the id of the message or, with a dedupe key, what became of it. */
export type Enqueued<Key> = Key extends undefined ? string : EnqueueResult

/** Enqueues one row by its dedupe key; undefined if the table did not take it. */
export async function insertDeduped(
  execute: Execute,
  queue: string,
  row: DedupedRow,
): Promise<EnqueueResult | undefined> {
  const { key, forMs, onDuplicate } = row.dedupe
  const [answer] = await execute(INSERT_DEDUPED, [...rowParams(queue, row), key, numeric(forMs), onDuplicate])
  return answer && resultOf(answer)
}

/** Enqueues rows by their dedupe keys in one statement, with an answer each, in the order of the rows. */
export async function insertAllDeduped(
  execute: Execute,
  queue: string,
  rows: readonly DedupedRow[],
): Promise<readonly (EnqueueResult | undefined)[]> {
  const payloads = rows.map(({ payload }) => payload).join(',')
  const answers = await execute(INSERT_ALL_DEDUPED, [queue, `[${payloads}]`, `[${rows.map(encode).join(',')}]`])
  return answers.map(resultOf)
}

/** The headers are JSON already. */
function encode({ payload, headers, dedupe, isPlain, ...others }: DedupedRow): string {
  const { key: dedupeKey, forMs, onDuplicate } = dedupe
  return `{"headers":${headers},${JSON.stringify({ ...others, dedupeKey, forMs, onDuplicate }).slice(1)}`
}

/** The only column; its name may be another, as the application's client likes. */
function resultOf(row: Row): EnqueueResult | undefined {
  const [value] = Object.values(row)
  if (value === null) return undefined
  const [id, outcome, state] = String(value).split(' ')
  const known = ENQUEUE_OUTCOMES.find((one) => one === outcome)
  if (id !== undefined && /^\d+$/.test(id) && known !== undefined && state !== undefined) {
    return { id, outcome: known, state: state as EnqueueResult['state'] }
  }
  throw new TypeError(`insert_deduped: expected an id, an outcome and a state, received ${typeof value}`)
}

// A function, as for a row without a key: it is planned once in a session, and each of its statements has a snapshot of
// its own, so what follows the lock of the key sees what was committed before.
const INSERT_DEDUPED = statement(
  'insert_deduped',
  `
SELECT sluice_private.insert_deduped(${ROW_ARGUMENTS},
  $${NEXT_PARAMETER}::pg_catalog.text,
  $${NEXT_PARAMETER + 1}::pg_catalog.text::double precision,
  $${NEXT_PARAMETER + 2}::pg_catalog.text
) AS answer`,
  ['answer'],
)

const INSERT_ALL_DEDUPED = statement(
  'insert_all_deduped',
  `
SELECT d.answer
FROM sluice_private.insert_all_deduped(
  $1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb, $3::pg_catalog.text::pg_catalog.jsonb
) AS d (answer)`,
  ['answer'],
)

import { separated } from '../../basics/words/words.ts'
import { OPTIONS, type RowOptions } from '../../message-options.ts'
import { contentColumns, contentOf, insertedHere } from '../inserted-here.ts'
import { type Execute, numberOf, numberOrNull, type Row, statement, textOf, textOrNull } from '../statement.ts'
import { optionColumn } from './option-column.ts'

/**
 * A message as it was enqueued, with its options as in {@link EnqueueOptions}: times in milliseconds, as in `leaseMs`. Null: none,
 * or as the queue or the pipeline says.
 */
export interface EnqueuedMessage extends Omit<RowOptions, 'headers' | 'dueAt' | 'delayMs'> {
  /** As `enqueue` returned it. */
  readonly id: string
  /** The name of its queue. */
  readonly queue: string
  /** As JSON gives it back. */
  readonly payload: unknown
  /** An empty object if none were given. */
  readonly headers: unknown
  /**
   * How long after it was enqueued it is due, in milliseconds; of a debounced message, after its first enqueue. The server has
   * read its clock twice, so on a busy machine it may be a millisecond or more less than the delay.
   */
  readonly delayMs: number
  /** Null if none was given. */
  readonly dedupeKey: string | null
}

/**
 * The messages that the current transaction has enqueued so far, in order. Reads the whole table, so it is for tests
 * only.
 */
export async function enqueuedHere(execute: Execute): Promise<readonly EnqueuedMessage[]> {
  return (await execute(ENQUEUED_HERE, [])).map(toEnqueued)
}

/** The options with columns that {@link contentOf} does not read. */
const STORED = OPTIONS.filter(
  ({ name, option }) =>
    option.computed === undefined && !['headers', 'type', 'schemaVersion', 'orderingKey'].includes(name),
).map((named) => ({ ...named, column: separated(named.rowName, '_') }))

const ENQUEUED_HERE = statement(
  'enqueued_here',
  `
SELECT m.id::pg_catalog.text AS id, m.queue, ${contentColumns('m')}, ${STORED.map(({ column }) => `m.${column}`).join(', ')}, m.dedupe_key,
       greatest(extract(epoch FROM m.due_at - m.enqueued_at) * 1000.0, 0) AS delay_ms,
       extract(epoch FROM m.expires_at - m.due_at) * 1000.0 AS ttl_ms
FROM sluice.message m
WHERE ${insertedHere('m')}
ORDER BY m.id`,
)

function toEnqueued(row: Row): EnqueuedMessage {
  const options = STORED.map(({ rowName, column, option }) => [rowName, optionColumn(option).read(row, column)])
  return {
    ...(Object.fromEntries(options) as Omit<RowOptions, 'headers'>),
    ...contentOf(row),
    id: textOf(row, 'id'),
    queue: textOf(row, 'queue'),
    delayMs: Math.ceil(numberOf(row, 'delay_ms')),
    ttlMs: numberOrNull(row, 'ttl_ms'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
  }
}

import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { SluiceError } from '../../errors.ts'
import { type Execute, statement } from '../statement.ts'

/** How many partitions a stream can have. */
export const PARTITIONS = [1, 2, 4, 8, 16, 32, 64] as const

/** Null: stays as it is. 0 as `retainMs` or `retainBytes`: none. */
export interface StreamColumns {
  readonly partitions: number | null
  readonly retainMs: number | null
  readonly retainBytes: number | null
  readonly keepUnread: boolean | null
  readonly segmentMs: number | null
}

/**
 * Makes a stream, or changes its settings. A stream that is there is found by the primary key of sluice.stream, and written
 * only if a setting is another.
 *
 * @returns whether it was made.
 * @throws SluiceError STREAM_PARTITIONS_FIXED
 */
export async function defineStream(execute: Execute, stream: string, columns: StreamColumns): Promise<boolean> {
  const { partitions, retainMs, retainBytes, keepUnread, segmentMs } = columns
  const params = [partitions, retainMs, retainBytes, keepUnread, segmentMs].map((value) =>
    value === null ? null : String(value),
  )
  try {
    const [row] = await execute(DEFINE_STREAM, [stream, ...params])
    // As text: clients do not agree on booleans.
    return row !== undefined && Object.values(row)[0] === 'made'
  } catch (error) {
    if (!hasSqlState(error, 'SL031')) throw error
    throw new SluiceError(
      'STREAM_PARTITIONS_FIXED',
      `${wordsOf(error)}. Leave partitions out, or make another stream`,
      {
        cause: error,
      },
    )
  }
}

const DEFINE_STREAM = statement(
  'define_stream',
  `
SELECT CASE WHEN sluice.create_stream(
  $1::pg_catalog.text,
  $2::pg_catalog.text::integer,
  $3::pg_catalog.text::double precision * interval '1 millisecond',
  $4::pg_catalog.text::bigint,
  $5::pg_catalog.text::boolean,
  $6::pg_catalog.text::double precision * interval '1 millisecond'
) THEN 'made' ELSE 'there' END AS outcome`,
  ['outcome'],
)

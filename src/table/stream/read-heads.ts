import { type Execute, statement, textOf } from '../statement.ts'

/** The last position that was drawn in each stream: one page of its sequence. Streams that are gone are left out. */
export async function readHeads(execute: Execute, streams: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const rows = await execute(READ_HEADS, [streams])
  return new Map(rows.map((row) => [textOf(row, 'stream'), textOf(row, 'head')]))
}

const READ_HEADS = statement(
  'stream_heads',
  `
SELECT s.stream, sluice.stream_head(s.positions)::text AS head FROM sluice.stream s WHERE s.stream = ANY ($1::text[])`,
)

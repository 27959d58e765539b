import { numberOf, type Row, textOf, textOrNull } from './statement.ts'

/**
 * Whether the current transaction has inserted a visible row: if the transaction that has is still in progress, it is ours, or a
 * savepoint of it. No index has it, so it is for tests only.
 */
export const insertedHere = (alias: string): string => `pg_xact_status(
        ((pg_current_xact_id()::pg_catalog.text::bigint >> 32 << 32) + ${alias}.xmin::pg_catalog.text::bigint)
          ::pg_catalog.text::pg_catalog.xid8
      ) = 'in progress'`

/** The columns of {@link contentOf}. */
export const contentColumns = (alias: string): string =>
  `${alias}.type, ${alias}.schema_version, ${alias}.payload::pg_catalog.text AS payload,
       ${alias}.headers::pg_catalog.text AS headers, ${alias}.ordering_key`

/** What a message and an event were given. */
export function contentOf(row: Row) {
  return {
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: JSON.parse(textOf(row, 'payload')) as unknown,
    headers: JSON.parse(textOf(row, 'headers')) as unknown,
    orderingKey: textOrNull(row, 'ordering_key'),
  }
}

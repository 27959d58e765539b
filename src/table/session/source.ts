import { type Execute, only, statement, textOf } from '../statement.ts'

/** The name of the database for those outside of it. */
export async function readSource(execute: Execute): Promise<string> {
  return textOf(only(await execute(READ_SOURCE, [])), 'id')
}

const READ_SOURCE = statement('source', 'SELECT s.id::text AS id FROM sluice.source s', ['id'])

import type pg from 'pg'
import { closeClient, executeOn, openClient } from '../connection/open-client.ts'
import { checkSchema } from '../table/schema.ts'
import { rolesSql } from './sql-files.ts'

/**
 * Creates the four roles, unless they exist, and grants each what it needs in this database.
 *
 * @throws SluiceError UNREACHABLE, and as `checkSchema`; the server's error if the login does not own the schema
 */
export async function grantRoles(connection: pg.ClientConfig): Promise<void> {
  const client = await openClient(connection)
  const execute = executeOn(client)
  try {
    await checkSchema(execute)
    await execute({ name: 'sluice_roles', text: rolesSql() }, [])
  } finally {
    await closeClient(client)
  }
}

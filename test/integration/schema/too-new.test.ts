import { describe, expect } from 'vitest'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { SCHEMA_BUILD } from '../../../src/table/schema-build.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { endSessions } from '../../support/servers/sessions.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('a worker whose schema no longer serves it', () => {
  test('is refused at its next connection, loses nothing, and goes on when it is served again', async ({
    database,
    sluice,
    log,
    queue,
  }) => {
    const handled: string[] = []
    sluice
      .pipeline(queue)
      .handle(({ id }) => void handled.push(id))
      .subscribe()
    await raisedFlag(database, queue)
    await pretend(database, SCHEMA_VERSION + 1, SCHEMA_VERSION + 1)
    await endSessions(database, 'sluice control')
    await log.first('connection.lost', ({ error }) => 'code' in error && error.code === 'SCHEMA_TOO_NEW')
    const ids = await put(sluice, queue, [1, 2])
    expect(handled).toEqual([])
    await pretend(database, SCHEMA_VERSION, 1)
    await waitFor(() => handled.length === 2, { what: 'both messages' })
    expect(handled).toEqual(ids)
  })
})

async function pretend(database: TestDatabase, version: number, oldestClient: number): Promise<void> {
  await database.sql(
    `CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer, OUT build text)
     LANGUAGE sql IMMUTABLE AS $$SELECT ${version}, ${oldestClient}, '${SCHEMA_BUILD}'$$`,
  )
}

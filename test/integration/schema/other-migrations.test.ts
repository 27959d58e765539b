import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate as migrateDrizzle } from 'drizzle-orm/node-postgres/migrator'
import { expect, onTestFinished, test } from 'vitest'
import { migrate, migrationSql } from '../../../src/migrate/migrate.ts'
import { createSluice } from '../../../src/sluice.ts'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'

const SLUICE = migrationSql().map(({ sql }) => sql)

/** Enqueues in the same migration, and names no schema for its table: the search_path is the application's again. */
const ORDERS = `CREATE TABLE orders (id int PRIMARY KEY);
  CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM sluice.enqueue('orders', to_jsonb(NEW.id)); RETURN NULL; END $$;
  CREATE TRIGGER announce AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION announce();
  INSERT INTO orders VALUES (1);`

test("Drizzle's migrator runs Sluice's migrations among its own, and sluice migrate then finds nothing to do", async () => {
  await using database = await createTestDatabase({ migrated: false })
  await runDrizzle(database, [...SLUICE, ORDERS])
  expect(await migrate(database.url)).toEqual({ applied: [], version: SCHEMA_VERSION })
  await using sluice = createSluice({ connection: database.url, log: false })
  expect(await sluice.pop('orders')).toMatchObject([{ payload: 1 }])
  const findings = await sluice.operate.doctor()
  expect(findings.filter(({ kind }) => kind.startsWith('schema.'))).toEqual([])
})

test("in Drizzle's migrator a failure takes back Sluice's migration with all others, and all run at the next try", async () => {
  await using database = await createTestDatabase({ migrated: false })
  await expect(runDrizzle(database, [...SLUICE, ORDERS, 'SELECT 1 / 0'])).rejects.toThrow()
  const schemas = `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sluice%'`
  expect(await database.sql(schemas)).toEqual([])
  await runDrizzle(database, [...SLUICE, ORDERS])
  expect(await database.sql(schemas)).toHaveLength(2)
})

test("Sluice's own migration runs before or after Drizzle's, and neither changes the other's", async () => {
  await using database = await createTestDatabase({ migrated: false })
  await runDrizzle(database, ['CREATE TABLE customer (id int PRIMARY KEY)'])
  await migrate(database.url)
  await runDrizzle(database, ['CREATE TABLE customer (id int PRIMARY KEY)', ORDERS])
  expect(await migrate(database.url)).toEqual({ applied: [], version: SCHEMA_VERSION })
  expect(await database.sql('SELECT queue, payload FROM sluice.message')).toEqual([{ queue: 'orders', payload: 1 }])
})

/** With a folder as drizzle-kit makes it. */
async function runDrizzle({ pool }: TestDatabase, migrations: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-drizzle-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'meta'))
  const entries = migrations.map((sql, idx) => {
    const tag = `000${idx}_step`
    writeFileSync(join(folder, `${tag}.sql`), sql)
    return { idx, version: '7', when: idx + 1, tag, breakpoints: true }
  })
  writeFileSync(join(folder, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }))
  await migrateDrizzle(drizzle(pool), { migrationsFolder: folder })
}

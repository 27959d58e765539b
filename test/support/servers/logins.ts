import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { test as base } from '../test.ts'
import type { TestDatabase } from './database.ts'
import { openPool } from './pool.ts'

/** What `sluice roles` runs. */
export const ROLES_SQL = readFileSync(new URL('../../../migrations/roles/roles.sql', import.meta.url), 'utf8')

export const ROLES = [
  'sluice_producer',
  'sluice_worker',
  'sluice_operator',
  'sluice_admin',
  'sluice_reader',
  'sluice_claimer',
] as const

export type RoleName = (typeof ROLES)[number]

/** Somebody who may log in, and has the rights of some roles and no others. */
export interface Login extends Pick<TestDatabase, 'url' | 'pool' | 'sql'> {
  readonly name: string
}

/** `test` on a database with roles, and a way to log in, for the file. */
export const test = base
  .extend('roles', { scope: 'file' }, async ({ database }) => {
    await database.sql(ROLES_SQL)
    return ROLES
  })
  .extend('login', { scope: 'file' }, async ({ database, roles: known }, { onCleanup }) => {
    const logins: Login[] = []
    onCleanup(async () => {
      for (const { name, pool } of logins) {
        await pool.end()
        await database.sql(`DROP OWNED BY ${name}`)
        await database.sql(`DROP ROLE ${name}`)
      }
    })
    return async (...roles: readonly RoleName[]): Promise<Login> => {
      const login = await createLogin(
        database,
        known.filter((role) => roles.includes(role)),
      )
      logins.push(login)
      return login
    }
  })

async function createLogin(database: TestDatabase, roles: readonly RoleName[]): Promise<Login> {
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const password = randomBytes(12).toString('hex')
  await database.sql(`CREATE ROLE ${name} LOGIN PASSWORD '${password}'`)
  for (const role of roles) await database.sql(`GRANT ${role} TO ${name}`)
  const url = Object.assign(new URL(database.url), { username: name, password }).href
  const pool = openPool({ connectionString: url })
  return {
    name,
    url,
    pool,
    sql: async <Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, params: readonly unknown[] = []) =>
      (await pool.query<Row>(text, [...params])).rows,
  }
}

import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { createSluice, type Sluice } from '../src/index.ts'

/** A database of an application with its Sluice. */
export interface Site<Tables> {
  readonly db: Kysely<Tables>
  readonly sluice: Sluice
  close(): Promise<void>
}

export function openSite<Tables>(url: string): Site<Tables> {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  pool.on('error', () => undefined)
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  // What fails in a demo fails on purpose, and is in the tables that are shown.
  const sluice = createSluice({ connection: url, log: false })
  return {
    db,
    sluice,
    close: async () => {
      await sluice.stop({ timeout: '5s' })
      await db.destroy()
    },
  }
}

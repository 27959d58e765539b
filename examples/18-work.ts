// A worker without a program: `sluice work` runs a module of handlers until a signal comes, or, with --once, until nothing is due.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { extname, join } from 'node:path'
import pg from 'pg'
import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()
const pool = new pg.Pool({ connectionString: connection })
await pool.query('CREATE TABLE IF NOT EXISTS example_member (name text NOT NULL)')
for (const name of ['Ada', 'Grace']) await sluice.enqueue(sluice.ownTransaction, 'work.signup', { name })

// npx sluice work examples/18-work/handlers.ts --once
const [command = 'npx sluice'] = process.argv.slice(2)
const handlers = join(import.meta.dirname, '18-work', `handlers${extname(import.meta.filename)}`)
const child = spawn(`${command} work ${handlers} --once`, { shell: true, stdio: ['ignore', 'inherit', 'ignore'] })
const [code] = (await once(child, 'exit')) as [number | null]

const { rows } = await pool.query<{ count: string }>('SELECT count(*) FROM example_member')
console.log(`exit code ${code}, ${rows[0]?.count} members`)
await pool.end()
await sluice.stop()

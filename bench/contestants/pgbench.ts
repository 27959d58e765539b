import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Contestant, DrainSpec } from '../contestant.ts'
import { messageTable } from './message-table.ts'

/**
 * The server's own ceiling: a client in C that claims and deletes by one statement and throws the payloads away, so
 * there is no place for a handler. Nothing that runs handlers can be as fast.
 */
export const pgbench: Contestant = {
  name: 'pgbench',
  title: `pgbench ${version() ?? ''}, no handlers`,
  guarantee: 'None: a message is gone before anything could be done about it',
  missing: () => (version() === undefined ? 'there is no pgbench in PATH' : undefined),
  ...messageTable,
  drains: {
    configuration: 'DELETE … RETURNING payload of a claim with SKIP LOCKED, prepared, one client per batch in flight',
    run: drain,
  },
}

function version(): string | undefined {
  try {
    return /[\d.]+/.exec(execFileSync('pgbench', ['--version'], { encoding: 'utf8' }))?.[0]
  } catch {
    return undefined
  }
}

const scriptOf = (batchSize: number): string => `
WITH claimed AS MATERIALIZED (
  SELECT queue, id FROM sluice.message
  WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now()
  ORDER BY due_at, id LIMIT ${batchSize} FOR UPDATE SKIP LOCKED
)
DELETE FROM sluice.message m USING claimed c WHERE m.queue = c.queue AND m.id = c.id RETURNING m.id, m.payload;
`

/** Each transaction takes a full batch, so this many leave nothing. */
async function drain(url: string, { batchSize, inFlight, messages }: DrainSpec): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-pgbench-'))
  try {
    const script = join(folder, 'drain.sql')
    await writeFile(script, scriptOf(batchSize))
    const transactions = messages / batchSize / inFlight
    const answer = await run(url, [
      ...['--no-vacuum', '--protocol', 'prepared', '--file', script],
      ...['--client', String(inFlight), '--jobs', '1', '--transactions', String(transactions)],
    ])
    const [, perSecond] = /tps = ([\d.]+) \(without initial connection time\)/.exec(answer) ?? []
    if (perSecond === undefined) throw new Error(`pgbench said: ${answer}`)
    return Number(perSecond) * batchSize
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** The password goes by the environment: arguments can be seen by everybody, and are part of error messages. */
async function run(url: string, options: readonly string[]): Promise<string> {
  const { hostname, port, username, password, pathname } = new URL(url)
  const connection = {
    PGHOST: hostname,
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: pathname.slice(1),
  }
  const { stdout } = await promisify(execFile)('pgbench', options, { env: { ...process.env, ...connection } })
  return stdout
}

// An audit log: who changed what, appended in the transaction that changes it. It is read by key, and a group that was made
// late is moved back to build a report of all of it.

import pg from 'pg'
import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false })
await sluice.migrate()
const STREAM = 'example.audit'
await sluice.streams.set(STREAM, { retain: '365d' })

const client = new pg.Client(connection)
await client.connect()
await client.query('CREATE TABLE IF NOT EXISTS example_account (id text PRIMARY KEY, plan text)')

async function setPlan(id: string, plan: string, by: string, isRefused = false): Promise<void> {
  await client.query('BEGIN')
  await client.query(
    'INSERT INTO example_account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET plan = excluded.plan',
    [id, plan],
  )
  await sluice.append(client, STREAM, { plan }, { orderingKey: id, type: 'account.plan', headers: { by } })
  await client.query(isRefused ? 'ROLLBACK' : 'COMMIT')
}

await setPlan('acme', 'free', 'ada')
await setPlan('bolt', 'free', 'ada')
await setPlan('acme', 'team', 'grace', true)
await setPlan('acme', 'pro', 'grace')

for await (const { payload, headers } of sluice.streams.read(STREAM, { orderingKey: 'acme' })) {
  console.log(`acme: ${(payload as { plan: string }).plan} by ${headers.by}`)
}

// A group begins at the end, unless it is told otherwise.
await sluice.groups.set(STREAM, 'report')
const changes = new Map<unknown, number>()
const report = sluice.pipeline(STREAM, { group: 'report' }).handle(({ headers }) => {
  changes.set(headers.by, (changes.get(headers.by) ?? 0) + 1)
})
await report.runOnce()
console.log(`from the end: ${changes.size}`)
const { events } = await sluice.groups.seek(STREAM, 'report', 'start', { dryRun: true })
await sluice.groups.seek(STREAM, 'report', 'start')
await report.runOnce()
console.log(`moved back over ${events}: ada ${changes.get('ada')}, grace ${changes.get('grace')}`)

await client.end()
await sluice.stop()

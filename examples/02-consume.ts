// Consume a queue: what a handler returns or throws decides what becomes of its message.

import pg from 'pg'
import { ack, createSluice, deadLetter, type Message, snooze } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()
const pool = new pg.Pool({ connectionString: connection })
await pool.query('CREATE TABLE IF NOT EXISTS example_email (message bigint PRIMARY KEY, recipient text NOT NULL)')

const allHandled = Promise.withResolvers<void>()
let handled = 0
sluice.events.subscribe((event) => {
  if (event.kind === 'message.failed') console.log(`try ${event.attempt} failed: ${event.error}`)
  if (event.kind === 'message.dead') console.log(`dead: ${event.reason}`)
  if (event.kind !== 'batch.committed') return
  handled += event.acked + event.dead
  if (handled === 4) allHandled.resolve()
})

const snoozed = new Set<string>()
const emails = sluice
  .pipeline('example.emails', { batchSize: 10, retry: { kind: 'exponential', delay: '100ms' }, maxAttempts: 5 })
  .handle(async (message: Message, { tx, attempt }) => {
    const { to } = message.payload as { to: string }
    if (to === 'nobody') return deadLetter('not an address')
    if (to === 'asleep@example.com' && !snoozed.has(message.id)) {
      snoozed.add(message.id)
      return snooze({ after: '200ms' })
    }
    // Written in the transaction that removes the message: it happens exactly once, or, if this throws, not at all.
    await tx.query('INSERT INTO example_email VALUES ($1, $2)', [message.id, to])
    if (to === 'flaky@example.com' && attempt === 1) throw new Error('The mail server is busy')
    return ack()
  })
  .start()

const ids = await sluice.enqueueMany(
  sluice.ownTransaction,
  'example.emails',
  ['ada@example.com', 'flaky@example.com', 'nobody', 'asleep@example.com'].map((to) => ({ payload: { to } })),
)
await allHandled.promise

// A worker would do this on SIGTERM: claim no more, let the handlers in flight end, and commit.
console.log('drained:', (await emails.drain({ timeout: '10s' })).completed)
const { rows } = await pool.query('SELECT recipient FROM example_email WHERE message = ANY ($1) ORDER BY 1', [ids])
console.log('sent:', rows.map((row) => row.recipient).join(', '))
await sluice.stop()
await pool.end()

// Test on the real queue, without waiting and without mocks. Put these in your test runner; here plain asserts do.

import assert from 'node:assert/strict'
import pg from 'pg'
import { ack, createSluice, deadLetter, type HandlerContext, type Message } from 'sluice'
import { advance, clearQueue, deliver, enqueuedIn, runDue } from 'sluice/testing'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()

/** The code under test: what enqueues … */
async function signUp(tx: pg.ClientBase, email: string): Promise<void> {
  await sluice.enqueue(tx, 'example.signups', { email }, { delay: '1m' })
}

/** … and what handles. */
async function welcome(message: Message, { enqueue }: HandlerContext) {
  const { email } = message.payload as { email: string }
  if (!email.includes('@')) return deadLetter('not an address')
  await enqueue('example.letters', { to: email })
  return ack()
}

// What does a piece of code enqueue? Ask its open transaction, and roll it back.
const client = new pg.Client(connection)
await client.connect()
await client.query('BEGIN')
await signUp(client, 'ada@example.com')
const [enqueued] = await enqueuedIn(client)
assert.deepEqual(enqueued?.payload, { email: 'ada@example.com' })
assert.equal(Math.round(enqueued.delayMs / 1_000), 60)
await client.query('ROLLBACK')
console.log('enqueuedIn: one message, due in a minute')

// What does a handler make of a message? No queue in between.
const outcomes = await deliver(sluice, 'example.signups', welcome, [{ payload: { email: 'nobody' } }])
assert.deepEqual(outcomes, [{ kind: 'deadLetter', reason: 'not an address' }])
console.log('deliver: a dead letter')

// And all together: everything that is due, and what handlers enqueue for one another. Each test begins with empty queues.
for (const queue of ['example.signups', 'example.letters']) await clearQueue(sluice, queue)
const letters: unknown[] = []
const pipelines = [
  sluice.pipeline('example.signups').handle(welcome),
  sluice.pipeline('example.letters').handle((message) => void letters.push(message.payload)),
]
await client.query('BEGIN')
await signUp(client, 'ada@example.com')
await client.query('COMMIT')
assert.deepEqual(await runDue(pipelines), [])
// What is due later is due at once when time passes.
await advance(sluice, '1m', { queue: 'example.signups' })
const settled = await runDue(pipelines)
assert.deepEqual(
  settled.map(({ message }) => message.queue),
  ['example.signups', 'example.letters'],
)
assert.deepEqual(letters, [{ to: 'ada@example.com' }])
console.log('advance and runDue: a signup after a minute, then its letter')

await client.end()
await sluice.stop()

// Dedupe keys: what becomes of a message whose key is taken, by the policy; and the status of a key.

import { createSluice, type Dedupe } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', log: false })
await sluice.migrate()

const QUEUE = 'example.exports'

async function ask(note: string, payload: unknown, dedupe: Dedupe): Promise<void> {
  const { outcome, state } = await sluice.enqueue(sluice.ownTransaction, QUEUE, payload, { dedupe })
  console.log(`${note}: ${outcome}, ${state}`)
}

// Two clicks, one export. The second says what the export is to have in it.
const customer7: Dedupe = { key: 'customer 7', onDuplicate: 'requeue' }
await ask('first click', { version: 1 }, customer7)
await ask('second click', { version: 2 }, customer7)

// While it is being written, the customer changes three times: it is written once more, with the last change.
const begun = Promise.withResolvers<void>()
const changed = Promise.withResolvers<void>()
const twice = Promise.withResolvers<void>()
const written: unknown[] = []
const exports = sluice.pipeline(QUEUE, { mode: 'leased' }).handle(async ({ payload }) => {
  begun.resolve()
  await changed.promise
  if (written.push(payload) === 2) twice.resolve()
})
const running = exports.start()
await begun.promise
for (const version of [3, 4, 5]) await ask(`change ${version}`, { version }, customer7)
const { state, requeuedId } = await sluice.operate.messages.status(QUEUE, { dedupeKey: 'customer 7' })
console.log(`status: ${state}, and ${requeuedId === null ? 'nothing' : 'one more'} after it`)
changed.resolve()
await twice.promise
await running.drain()
console.log('written:', JSON.stringify(written))

// A key that is kept after success: the same mail is not sent twice within the hour.
const welcome: Dedupe = { key: `welcome ada ${new Date().toISOString()}`, for: '1h' }
await ask('mail', { to: 'ada@example.com' }, welcome)
await sluice.pop(QUEUE)
await ask('mail again', { to: 'ada@example.com' }, welcome)

// Many, in one statement, with an answer each.
const many = await sluice.enqueueMany(
  sluice.ownTransaction,
  QUEUE,
  ['a', 'b', 'a'].map((key) => ({ payload: { key }, dedupe: { key } })),
)
console.log('many:', many.map(({ outcome }) => outcome).join(', '))
await sluice.pop(QUEUE, { limit: 10 })
await sluice.stop()

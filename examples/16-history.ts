// History: a queue that keeps what has succeeded, who handled it and when; dead letters that are kept for a time; and what
// removes what is too old.

import pg from 'pg'
import { createSluice, deadLetter } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, name: 'worker-1', log: false })
await sluice.migrate()

// What a queue is told holds for all processes.
await sluice.operate.queues.settings.set('example.history', { history: '7d', deadLetterRetention: '30d' })

const payments = [{ amount: 10 }, { amount: 20 }, { amount: -1 }]
await sluice.enqueueMany(
  sluice.ownTransaction,
  'example.history',
  payments.map((payload) => ({ payload, type: 'payment', maxAttempts: 2 })),
)
await sluice
  .pipeline('example.history', { retry: { kind: 'fixed', delay: 0 } })
  .handle(({ payload }, { attempt }) => {
    const { amount } = payload as { amount: number }
    if (amount < 0) return deadLetter('a negative amount')
    if (amount === 20 && attempt === 1) throw new Error('the bank is busy')
    return undefined
  })
  .runOnce()

const { messages } = await sluice.operate.history.list({ queue: 'example.history', type: 'payment' })
for (const { payload, attempt, worker, lastError } of messages.toReversed()) {
  console.log(
    `${JSON.stringify(payload)}: attempt ${attempt} by ${worker}${lastError === null ? '' : `, after "${lastError}"`}`,
  )
}

// A worker makes a pass of maintenance every five minutes; this makes one now, a month after the dead letter has died.
const db = new pg.Client(connection)
await db.connect()
await db.query(`UPDATE sluice.dead_letter SET died_at = died_at - interval '31 days' WHERE queue = 'example.history'`)
const { deadLetters, finished } = await sluice.operate.maintain()
console.log(`dead letters removed: ${deadLetters}, finished: ${finished}`)

await Promise.all([sluice.stop(), db.end()])

// Claims: a job that runs on a schedule, takes what there is, and settles each message by itself. What it does not get to
// goes back, and another process may settle what it has claimed.

import { createSluice, deadLetter, retryLater } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false })
await sluice.migrate()

const addresses = ['ada@example.com', 'busy@example.com', 'nobody', 'grace@example.com', 'edsger@example.com']
await sluice.enqueueMany(
  sluice.ownTransaction,
  'example.letters',
  addresses.map((to) => ({ payload: { to } })),
)

/** One run of the job: at most three letters. */
async function job(run: number): Promise<void> {
  const claim = await sluice.claim('example.letters', { limit: 3, lease: '1m' })
  if (claim === undefined) {
    console.log(`run ${run}: nothing to do`)
    return
  }
  try {
    for (const message of claim.messages) {
      const { to } = message.payload as { to: string }
      if (to === 'nobody') await claim.settle(message, deadLetter('not an address'))
      else if (to.startsWith('busy') && message.attempt === 1) await claim.settle(message, retryLater({ after: 0 }))
      else await claim.settle(message)
      console.log(`run ${run}: ${to}, attempt ${message.attempt}`)
    }
  } finally {
    await claim.release() // What is not settled.
  }
}

for (let run = 1; run <= 3; run++) await job(run)

// A claim in one process, and its settlement, by numbers, in another.
const id = await sluice.enqueue(sluice.ownTransaction, 'example.letters', { to: 'alan@example.com' })
const claim = await sluice.claim('example.letters', { lease: '10m' })
const elsewhere = createSluice({ connection, log: false })
const { settled, refused } = await elsewhere.operate.claims.settle('example.letters', claim?.id ?? '', [id, '1'])
console.log(`settled elsewhere: ${settled.length}, refused: ${refused.map(({ reason }) => reason)}`)

await Promise.all([sluice.stop(), elsewhere.stop()])

// Queues with schemas: names and payloads are checked by the compiler, and payloads by the schema, on the way in and
// on the way out. Any Standard Schema will do: Zod, Valibot, ArkType.

import { createSluice, isSluiceError } from 'sluice'
import { runDue } from 'sluice/testing'
import { z } from 'zod'

const Signup = z.object({ email: z.email(), at: z.coerce.date(), plan: z.enum(['free', 'team']).default('free') })

const sluice = createSluice({
  connection: process.env.DATABASE_URL ?? '',
  queues: { 'example.typed': { schema: Signup }, 'example.audit': {} },
})
await sluice.migrate()

// The schema's input goes in: `plan` may be left out.
await sluice.enqueue(sluice.ownTransaction, 'example.typed', { email: 'ada@example.com', at: '2026-01-01T00:00:00Z' })

const signups = sluice.pipeline('example.typed').handle((message) => {
  // The schema's output comes out: `at` is a Date again, and `plan` has its default.
  const { email, at, plan } = message.payload
  console.log(email, at.getUTCFullYear(), plan)
})
await runDue(signups)

try {
  await sluice.enqueue(sluice.ownTransaction, 'example.typed', { email: 'ada', at: '2026-01-01T00:00:00Z' })
} catch (error) {
  if (isSluiceError(error, 'PAYLOAD_SCHEMA')) console.log(error.message)
}

try {
  // @ts-expect-error The compiler refuses this name; so does Sluice, for those who have no compiler.
  await sluice.enqueue(sluice.ownTransaction, 'example.typd', {})
} catch (error) {
  if (isSluiceError(error, 'QUEUE_UNKNOWN')) console.log(error.message)
}
await sluice.stop()

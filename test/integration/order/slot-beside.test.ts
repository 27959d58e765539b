import { expect } from 'vitest'
import { keysOf } from '../../support/rows/claim-session.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

test('a message of another slot, or without a key, starts while a full batch of a slot is in flight', async ({
  database,
  queue,
}) => {
  const { same, other } = await keysOf(database)
  const sluice = startTestSluice(database, { pollInterval: NO_POLL })
  await put(sluice, queue, ['a', 'b', 'c'], { orderingKey: same[0] })
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 2, concurrency: 3 }).handle(steps.handle).start()
  await waitFor(() => steps.taken.length === 1, { what: 'the first batch' })
  await raisedFlag(database, queue)
  await put(sluice, queue, ['other'], { orderingKey: other })
  await waitFor(() => steps.taken.length === 2, { what: 'the other slot' })
  await raisedFlag(database, queue)
  await put(sluice, queue, ['no key'])
  await waitFor(() => steps.taken.length === 3, { what: 'the message without a key' })
  expect(steps.payloads).toEqual(['a', 'other', 'no key'])
})

test('and one that came in the same transaction, when the last look at the queue had found that slot alone', async ({
  database,
  queue,
}) => {
  const { same, other } = await keysOf(database)
  const sluice = startTestSluice(database, { pollInterval: NO_POLL })
  await put(sluice, queue, ['first'], { orderingKey: same[0] })
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 1, concurrency: 4 }).handle(steps.handle).start()
  await steps.endNext()
  await raisedFlag(database, queue)
  await sluice.enqueueMany(sluice.ownTransaction, queue, [
    { payload: 'long', orderingKey: same[0] },
    { payload: 'other', orderingKey: other },
    { payload: 'no key' },
  ])
  await waitFor(() => steps.taken.length === 4, { what: 'all three beside each other' })
})

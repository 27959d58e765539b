import { expect } from 'vitest'
import { answering } from '../../support/servers/receiver.ts'
import { makeDue, messagesOf, sendDue, test } from '../../support/webhooks.ts'

test('a message waits for the retry policy of its queue where that is longer than Retry-After, and dies after its last attempt', async ({
  database,
  sluice,
  queue,
  receiver,
}) => {
  await sluice.endpoints.set(queue, 'e', { url: receiver.url })
  await sluice.operate.queues.settings.set(queue, { retry: { kind: 'fixed', delay: '2h' }, maxAttempts: 2 })
  receiver.answer = answering(429, { 'retry-after': '60' })
  await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
  await sendDue(sluice, queue, receiver)
  const [failed] = await messagesOf(database, queue)
  expect(failed?.due_in).toBeGreaterThan(7_000)
  await sluice.endpoints.enable(queue, 'e')
  await makeDue(database, queue)
  expect((await sendDue(sluice, queue, receiver)).counts).toMatchObject({ dead: 1 })
})

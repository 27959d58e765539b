import { nanos } from '@nats-io/transport-node'
import { expect, onTestFinished } from 'vitest'
import type { Sluice } from '../../src/sluice.ts'
import { CarrierProcess } from '../support/processes/carrier-process.ts'
import { payloadsOf } from '../support/rows/rows.ts'
import { createTestDatabase } from '../support/servers/database.ts'
import { addConsumer, startNats } from '../support/servers/nats.ts'
import { put, test } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const STREAM = 'orders'
const KEYS = 20
const EACH = 50
const STAGES = 3

test('what one database relays another receives once, in order of each key', async ({
  database: sender,
  sluice,
  queue,
  skip,
}) => {
  const receiver = await createTestDatabase()
  onTestFinished(() => receiver[Symbol.asyncDispose]())
  const { server, manager } = await startNats(skip)
  // So short that the copies of a killed relay come through.
  await manager.streams.add({ name: STREAM, subjects: [STREAM], duplicate_window: nanos(100) })
  await addConsumer(manager, STREAM, 'inbox')
  const at = { queue, servers: [server.url], stream: STREAM }
  const relay = () => new CarrierProcess({ role: 'relay', connection: sender.url, ...at })
  const inbox = () => new CarrierProcess({ role: 'inbox', connection: receiver.url, ...at })

  await enqueue(sluice, queue, 0)
  const [firstRelay, firstInbox] = [relay(), inbox()]
  await firstRelay.event('batch.committed', 3)
  await firstRelay.kill()
  await enqueue(sluice, queue, 1)
  const secondRelay = relay()
  await Promise.all([secondRelay.event('batch.committed', 3), firstInbox.event('inbox.stored', 3)])
  await server.kill()
  // Else the relay might have nothing to do, and not notice.
  await enqueue(sluice, queue, 2)
  await Promise.all([secondRelay.event('relay.unavailable'), firstInbox.event('inbox.unavailable')])
  await server.run()
  await firstInbox.event('inbox.available')
  await firstInbox.kill()
  inbox()

  const count = STAGES * KEYS * EACH
  const whole = async () => (await payloadsOf(receiver, queue)).length >= count
  await waitFor(whole, { what: 'all messages in the second database', timeoutMs: 90_000 })
  const next = new Map<number, number>()
  for (const payload of await payloadsOf(receiver, queue)) {
    const { key, n } = payload as { readonly key: number; readonly n: number }
    expect([key, n]).toEqual([key, next.get(key) ?? 0])
    next.set(key, n + 1)
  }
  expect([...next.values()]).toEqual(Array(KEYS).fill(STAGES * EACH))
  // The last confirm comes before the COMMIT that removes its row.
  await waitFor(async () => (await payloadsOf(sender, queue)).length === 0, { what: 'the first database to be empty' })
})

/** The messages of a stage, for each key. */
async function enqueue(sluice: Sluice, queue: string, stage: number): Promise<void> {
  for (let key = 0; key < KEYS; key += 1) {
    const numbers = Array.from({ length: EACH }, (_, n) => ({ key, n: stage * EACH + n }))
    await put(sluice, queue, numbers, { orderingKey: String(key) })
  }
}

import { expect } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { type RoleName, test } from '../../support/servers/logins.ts'
import { startReceiver } from '../../support/servers/receiver.ts'
import { startTestSluice } from '../../support/sluice.ts'

const lacks = (role: string) => ({ code: 'PRIVILEGE_MISSING', message: expect.stringContaining(`GRANT ${role} TO`) })
const EVENT = { type: 'a', payload: 1 }
const QUEUE = 'hooks'

test('an administrator makes endpoints, a producer sends, a worker delivers, and an operator disables', async ({
  login,
}) => {
  const receiver = await startReceiver()
  const sluiceOf = async (role: RoleName) => startTestSluice(await login(role))
  const admin = await sluiceOf('sluice_admin')
  await admin.endpoints.set(QUEUE, 'e', { url: receiver.url })
  await admin.endpoints.rotate(QUEUE, 'e')
  const producer = await sluiceOf('sluice_producer')
  await producer.sendWebhook(producer.ownTransaction, QUEUE, EVENT)
  const worker = await sluiceOf('sluice_worker')
  const log = new EventLog(worker.events)
  await worker.webhooks(QUEUE, receiver.reach).runOnce()
  expect(receiver.received).toHaveLength(1)
  expect(log.of('endpoint.unnoted')).toEqual([])
  expect(await admin.endpoints.test(QUEUE, 'e', receiver.reach)).toMatchObject({ delivered: true })
  const reader = await sluiceOf('sluice_reader')
  expect(await reader.endpoints.get(QUEUE, 'e')).toMatchObject({ attempts: 1, successes: 1 })
  const operator = await sluiceOf('sluice_operator')
  expect(await operator.endpoints.disable(QUEUE, 'e')).toBe(true)
  expect(await operator.endpoints.enable(QUEUE, 'e')).toBe(true)
})

test('others do none of this, and read no secret', async ({ login }) => {
  const worker = await login('sluice_worker')
  const of = startTestSluice(worker)
  await expect(of.sendWebhook(of.ownTransaction, QUEUE, EVENT)).rejects.toMatchObject(lacks('sluice_producer'))
  await expect(of.endpoints.set(QUEUE, 'x', { url: 'https://a.example' })).rejects.toMatchObject(lacks('sluice_admin'))
  await expect(of.endpoints.list(QUEUE)).rejects.toMatchObject(lacks('sluice_reader'))
  await expect(of.endpoints.enable(QUEUE, 'x')).rejects.toMatchObject(lacks('sluice_operator'))
  for (const role of [
    'sluice_worker',
    'sluice_producer',
    'sluice_reader',
    'sluice_operator',
    'sluice_admin',
  ] as const) {
    const { pool } = await login(role)
    await expect(pool.query('SELECT secret FROM sluice.endpoint')).rejects.toMatchObject({ code: '42501' })
  }
})

import { describe, expect } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { test } from '../../support/servers/logins.ts'
import { startTestSluice } from '../../support/sluice.ts'

const NO_WORKER = {
  name: 'SluiceError',
  code: 'PRIVILEGE_MISSING',
  message: expect.stringContaining('GRANT sluice_worker TO'),
  cause: { code: '42501' },
}

describe('a login without the privileges', () => {
  test('is named in the command to grant them', async ({ login }) => {
    const stranger = await login()
    const sluice = startTestSluice(stranger)
    const granted = (role: string) => ({
      code: 'PRIVILEGE_MISSING',
      message: expect.stringContaining(`then \`GRANT ${role} TO "${stranger.name}"\``),
    })
    await expect(sluice.enqueue(sluice.ownTransaction, 'q', 1)).rejects.toMatchObject(granted('sluice_producer'))
    await expect(sluice.operate.messages.list({ queue: 'q' })).rejects.toMatchObject(granted('sluice_reader'))
    await expect(sluice.claim('q')).rejects.toMatchObject(granted('sluice_claimer'))
    await expect(sluice.start()).rejects.toMatchObject(granted('sluice_worker'))
    const client = await stranger.pool.connect()
    try {
      await client.query('BEGIN')
      await expect(sluice.enqueue(client, 'q', 1)).rejects.toMatchObject(granted('sluice_producer'))
    } finally {
      client.release(true)
    }
  })

  test('to enqueue is told what to grant', async ({ login }) => {
    const stranger = await login('sluice_worker')
    const sluice = startTestSluice(stranger)
    const refused = { code: 'PRIVILEGE_MISSING', message: expect.stringContaining('GRANT sluice_producer TO') }
    await expect(sluice.enqueue(sluice.ownTransaction, 'q', 1)).rejects.toMatchObject(refused)
    const client = await stranger.pool.connect()
    try {
      await client.query('BEGIN')
      await expect(sluice.enqueue(client, 'q', 1)).rejects.toMatchObject(refused)
    } finally {
      client.release(true)
    }
  })

  test.for([[], ['sluice_producer'], ['sluice_reader']] as const)(
    'of a worker is told what to grant, with %s',
    async (roles, { login }) => {
      const sluice = startTestSluice(await login(...roles))
      const pipeline = sluice.pipeline('q').handle(() => undefined)
      await expect(sluice.start()).rejects.toMatchObject(NO_WORKER)
      await expect(pipeline.runOnce()).rejects.toMatchObject(NO_WORKER)
      await expect(pipeline.subscribe().ended).rejects.toMatchObject(NO_WORKER)
    },
  )

  test.for([[], ['sluice_producer'], ['sluice_worker']] as const)(
    'to look at messages is told what to grant, with %s',
    async (roles, { login }) => {
      const { operate } = startTestSluice(await login(...roles))
      const refused = { code: 'PRIVILEGE_MISSING', message: expect.stringContaining('GRANT sluice_reader TO') }
      await expect(operate.messages.list({ queue: 'q' })).rejects.toMatchObject(refused)
      await expect(operate.deadLetters.list()).rejects.toMatchObject(refused)
    },
  )

  test('for batches, where the control connection has them, is told by an event and by runOnce()', async ({
    login,
  }) => {
    const [stranger, worker] = [await login('sluice_producer'), await login('sluice_worker')]
    const sluice = startTestSluice(stranger, { directConnection: worker.url })
    const log = new EventLog(sluice.events)
    const pipeline = sluice.pipeline('q').handle(() => undefined)
    await expect(pipeline.runOnce()).rejects.toMatchObject(NO_WORKER)
    pipeline.subscribe()
    expect(await log.first('claim.failed')).toMatchObject({ error: NO_WORKER })
  })
})

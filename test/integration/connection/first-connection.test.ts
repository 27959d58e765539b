import { lastValueFrom, toArray } from 'rxjs'
import { describe, expect } from 'vitest'
import { createSluice } from '../../../src/index.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const NOBODY_THERE = 'postgres://nobody:secret@127.0.0.1:1/none'

describe('a pipeline whose database is down when it starts', () => {
  test('tries again until the database is there, and reports each attempt', async ({ database, sluice, queue }) => {
    const proxy = await startProxy(database.url)
    proxy.refusing = true
    const late = startTestSluice({ url: proxy.url })
    const log = new EventLog(late.events)
    late
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await waitFor(() => log.of('connection.failed').length >= 2, { what: 'two attempts' })
    expect(log.of('connection.failed')[0]).toEqual({
      kind: 'connection.failed',
      role: 'control',
      error: expect.objectContaining({ code: 'UNREACHABLE' }),
      retryInMs: expect.any(Number),
    })
    expect(log.of('pipeline.started')).toEqual([])
    await put(sluice, queue, [1])

    proxy.refusing = false

    await untilEmpty(database, queue)
    // The messages are gone before this process has the answer to its COMMIT.
    await waitFor(() => log.of('batch.committed').length > 0, { what: 'the event' })
    expect(log.all.map(({ kind }) => kind).filter((kind) => kind !== 'connection.failed')).toEqual(
      expect.arrayContaining(['worker.started', 'pipeline.started', 'batch.committed']),
    )
  })

  test('shares its attempts with the others of the process', async ({ queue }) => {
    const sluice = startTestSluice({ url: NOBODY_THERE })
    const log = new EventLog(sluice.events)
    for (let n = 0; n < 20; n++) {
      sluice
        .pipeline(`${queue}.${n}`)
        .handle(() => undefined)
        .subscribe()
    }
    await log.first('connection.failed')
    await log.first('connection.failed', (event) => event !== log.of('connection.failed')[0])
    expect(log.of('connection.failed').length).toBeLessThan(20)
  })

  test('ends at once when it is stopped, drained, or its Sluice stops', async ({ queue }) => {
    const sluice = createSluice({ connection: NOBODY_THERE })
    const log = new EventLog(sluice.events)
    const start = () =>
      sluice
        .pipeline(queue)
        .handle(() => undefined)
        .subscribe()
    const [stopped, drained, left] = [start(), start(), start()]
    await log.first('connection.failed')
    await stopped.stop()
    expect(await drained.drain()).toEqual({ completed: true })
    await sluice.stop()
    await Promise.all([stopped.ended, drained.ended, left.ended])
    expect(log.of('pipeline.stopped')).toHaveLength(3)
    expect(log.of('pipeline.started')).toEqual([])
  })

  test('does not stop start() and runOnce() from saying so at once', async ({ queue }) => {
    const sluice = startTestSluice({ url: NOBODY_THERE })
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    pipeline.subscribe()
    await expect(sluice.start()).rejects.toMatchObject({ code: 'UNREACHABLE' })
    await expect(pipeline.runOnce()).rejects.toMatchObject({ code: 'UNREACHABLE' })
  })
})

describe('deliveries whose database is down when they start', () => {
  test('come when it is there', async ({ database, sluice, queue }) => {
    const proxy = await startProxy(database.url)
    proxy.refusing = true
    const late = startTestSluice({ url: proxy.url })
    const log = new EventLog(late.events)
    const loop = async () => {
      for await (const delivery of late.deliveries(queue, { demand: 1 })) {
        delivery.ack()
        return delivery.message.payload
      }
      return undefined
    }
    const looped = loop()
    await log.first('connection.failed')
    await put(sluice, queue, ['late'])
    proxy.refusing = false
    expect(await looped).toBe('late')
  })

  test('complete when the Sluice stops', async ({ queue }) => {
    const sluice = createSluice({ connection: NOBODY_THERE })
    const log = new EventLog(sluice.events)
    const all = lastValueFrom(sluice.deliveries(queue, { demand: 1 }).pipe(toArray()))
    await log.first('connection.failed')
    await sluice.stop()
    expect(await all).toEqual([])
  })
})

describe('what another attempt does not cure ends the pipeline', () => {
  test('a schema that is missing', async () => {
    await using bare = await createTestDatabase({ migrated: false })
    await expectRefused(bare.url, { code: 'SCHEMA_MISSING' })
  })

  test('a database that is missing', async ({ database }) => {
    const url = new URL(database.url)
    url.pathname = '/no_such_database'
    await expectRefused(url.href, {
      code: 'UNREACHABLE',
      message: expect.stringContaining('database "no_such_database" does not exist'),
      cause: { code: '3D000' },
    })
  })

  test('a login that is refused', async ({ database }) => {
    const url = new URL(database.url)
    url.username = 'no_such_login'
    await expectRefused(url.href, {
      code: 'UNREACHABLE',
      message: expect.stringMatching(/(role|user) "no_such_login".*Check the user and the password/),
      cause: { code: expect.stringMatching(/^28/) },
    })
  })

  test('a server that has no TLS', async ({ database }) => {
    const url = new URL(database.url)
    url.searchParams.set('sslmode', 'verify-full')
    await expectRefused(url.href, { code: 'UNREACHABLE' })
  })

  test('a certificate that is not there', async ({ database }) => {
    const url = new URL(database.url)
    url.searchParams.set('sslrootcert', '/no/such/file.pem')
    await expectRefused(url.href, { code: 'UNREACHABLE', cause: { code: 'ENOENT' } })
  })

  async function expectRefused(url: string, error: object): Promise<void> {
    const sluice = startTestSluice({ url })
    const log = new EventLog(sluice.events)
    const { ended: closed } = sluice
      .pipeline('q')
      .handle(() => undefined)
      .subscribe()
    await expect(closed).rejects.toMatchObject(error)
    expect(log.of('connection.failed')).toEqual([])
    expect(log.of('pipeline.stopped')).toEqual([
      { kind: 'pipeline.stopped', queue: 'q', error: expect.objectContaining({ code: expect.any(String) }) },
    ])
    const loop = async () => {
      for await (const _ of sluice.deliveries('q', { demand: 1 })) return
    }
    await expect(loop()).rejects.toMatchObject(error)
  }
})

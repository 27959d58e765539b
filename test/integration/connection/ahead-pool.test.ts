import { describe, expect, onTestFinished } from 'vitest'
import { AheadPool } from '../../../src/process/ahead-pool.ts'
import { openPool } from '../../support/servers/pool.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, test as sluiceTest, startTestSluice } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { test as base } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('opening', async ({ database }) => {
  const proxy = await startProxy(database.url)
  const pool = openPool({ connectionString: proxy.url })
  onTestFinished(() => pool.end())
  return { proxy, pool, ahead: new AheadPool(pool) }
})

describe('a connection that is opened ahead', () => {
  test('is for the first who asks, who waits for it', async ({ opening: { pool, ahead } }) => {
    const opened = ahead.open()
    const [first, second] = await Promise.all([ahead.connect(), ahead.connect()])
    await opened
    expect([pool.totalCount, pool.idleCount]).toEqual([2, 0])
    for (const client of [first, second]) client.release()
  })

  test('is idle if nobody has asked, however often it was to be opened', async ({ opening: { pool, ahead } }) => {
    await Promise.all([ahead.open(), ahead.open()])
    expect([pool.totalCount, pool.idleCount]).toEqual([1, 1])
    const client = await ahead.connect()
    expect([pool.totalCount, pool.idleCount]).toEqual([1, 0])
    client.release()
  })

  test('tells whoever waits for it why it cannot be opened', async ({ opening: { proxy, ahead } }) => {
    proxy.refusing = true
    const opened = ahead.open()
    await expect(ahead.connect()).rejects.toThrow()
    await opened
  })

  test('is opened by the first who asks if it could not be before', async ({ opening: { proxy, pool, ahead } }) => {
    proxy.refusing = true
    await ahead.open()
    expect(pool.totalCount).toBe(0)
    proxy.heal()
    const client = await ahead.connect()
    client.release()
  })
})

describe('while a worker registers', () => {
  sluiceTest('the connection for its first claim logs in', async ({ database, sluice, queue }) => {
    const { direct, proxy, worker } = await startRegistering(database)
    await put(sluice, queue, [1])
    const steps = new Steps()
    worker.pipeline(queue, { concurrency: 1 }).handle(steps.handle).start()
    await waitFor(() => proxy.countOf('sluice') === 1, { what: 'the connection' })
    expect(steps.taken).toEqual([])
    direct.passes = () => true
    direct.letGo()
    const { end } = await steps.next()
    expect(proxy.accepted).toBe(1)
    end()
  })

  sluiceTest('a stop ends, although that connection hangs in connecting', async ({ database, queue }) => {
    const { proxy, worker } = await startRegistering(database)
    proxy.blackHole()
    worker
      .pipeline(queue)
      .handle(() => undefined)
      .start()
    await waitFor(() => proxy.accepted === 1, { what: 'the connection' })
    await worker.stop({ timeout: 0 })
  })
})

/** A Sluice whose workers do not come to be registered. Batches go through another proxy. */
async function startRegistering(database: { readonly url: string }) {
  const [direct, proxy] = await Promise.all([startProxy(database.url), startProxy(database.url)])
  direct.passes = ({ bytes }) => (bytes.includes('INSERT INTO sluice.worker ') ? 'wait' : true)
  const worker = startTestSluice({ url: proxy.url }, { directConnection: direct.url, connectTimeout: 600_000 })
  return { direct, proxy, worker }
}

import { expect } from 'vitest'
import { pause } from '../../../src/basics/time/pause.ts'
import { resolveConfig } from '../../../src/config.ts'
import { ClaimLines } from '../../../src/pull/claim-lines.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

test('connections of claims that wait are closed, also if earlier ones fail behind them', async ({
  database,
  queue,
}) => {
  const proxy = await startProxy(database.url)
  let first: object | undefined
  proxy.passes = (_message, { connection }) => {
    first ??= connection
    return connection === first ? 'swallow' : true
  }
  const config = resolveConfig({ connection: proxy.url, connectTimeout: '1m' })
  const waiting = new ClaimLines(
    config,
    () => undefined,
    async () => () => undefined,
  )

  // The first connection gets no answer. Half a second after everybody has left, the next to come opens another.
  const opened = new Error('the second one is open')
  const second = async () => {
    const controller = new AbortController()
    const take = async () => {
      proxy.loseHalfOpen()
      // So long the first one has to fail before the last one leaves. With less the test could only find less.
      await pause(300)
      controller.abort(opened)
      return undefined
    }
    return waiting.claim(queue, take, 3_000, controller.signal).catch((error: unknown) => error)
  }
  await waitFor(async () => (await second()) === opened || pause(600), { what: 'the second connection' })
  await waitFor(() => proxy.countOf('sluice control') === 0, { what: 'the connections to be closed' })
  expect(proxy.accepted).toBeGreaterThan(1)
})

test('room for connections that comes when nobody waits any more is given back, and nothing is opened', async ({
  database,
  queue,
}) => {
  const proxy = await startProxy(database.url)
  const [asked, room] = [deferred<AbortSignal>(), deferred<() => void>()]
  const waiting = new ClaimLines(
    resolveConfig({ connection: proxy.url }),
    () => undefined,
    (signal) => {
      asked.resolve(signal)
      return room.promise
    },
  )
  const claimed = waiting.claim(queue, async () => undefined, 60_000, undefined)
  claimed.catch(() => undefined)
  const given = await asked.promise
  const stopped = waiting.stop()
  await expect(claimed).rejects.toMatchObject({ code: 'STOPPED' })
  expect(given.aborted).toBe(true)
  let returned = false
  room.resolve(() => {
    returned = true
  })
  await stopped
  expect(returned).toBe(true)
  expect(proxy.accepted).toBe(0)
})

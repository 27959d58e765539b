import { describe, expect } from 'vitest'
import type { SluiceOptions } from '../../../src/config.ts'
import type { LeasedContext } from '../../../src/handle/handler.ts'
import { EventLog } from '../../support/event-log.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/servers/logins.ts'
import { endSessions } from '../../support/servers/sessions.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

let queues = 0
const test = base.extend('queue', () => `cancels.${++queues}`)

const MODES = ['transactional', 'leased'] as const
const CANCEL_UNHEARD = `SELECT c.result FROM set_config('sluice.notify', 'off', true), LATERAL (SELECT sluice.cancel($1, $2)) c (result)`

/** A message that its handler keeps until it is told to go on, in a process that listens. */
async function keptInHand(
  database: TestDatabase,
  queue: string,
  mode: (typeof MODES)[number],
  options: Partial<SluiceOptions> = {},
) {
  const sluice = startTestSluice(database, { pollInterval: NO_POLL, ...options })
  const log = new EventLog(sluice.events)
  sluice
    .pipeline(`${queue}.other`)
    .handle(() => undefined)
    .start()
  await raisedFlag(database, `${queue}.other`)
  const [begun, go, ended] = [deferred<AbortSignal>(), deferred(), deferred()]
  sluice
    .pipeline(queue, { mode: mode as 'transactional' })
    .handle(async (_, { signal }) => {
      begun.resolve(signal)
      signal.addEventListener('abort', () => ended.resolve())
      await Promise.race([go.promise, ended.promise])
    })
    .start()
  const [id] = await put(sluice, queue, [1])
  return { sluice, log, id: id!, signal: await begun.promise, go: go.resolve, ended: ended.promise }
}

/** Cancels a message so that nobody is notified. */
async function cancelUnheard(database: TestDatabase, queue: string, id: string): Promise<void> {
  await database.sql(CANCEL_UNHEARD, [queue, id])
}

for (const mode of MODES) {
  describe(`a ${mode} message in hand`, () => {
    test('is not cancelled by a notification, which any login may send', async ({ database, login, queue }) => {
      const stranger = await login()
      const { sluice, log, id, signal, go } = await keptInHand(database, queue, mode)
      for (const payload of [
        `!cancel!${queue}`,
        `!cancel!${id}!${queue}`,
        `!holds!${queue}`,
        `!settings!${queue}`,
        queue,
      ])
        await stranger.sql('SELECT pg_notify($1, $2)', ['sluice', payload])
      // The same listener hears of this message, and it is claimed and settled, behind all that.
      await put(sluice, `${queue}.other`, [1])
      await untilEmpty(database, `${queue}.other`)
      expect(signal.aborted).toBe(false)
      go()
      await untilEmpty(database, queue)
      expect(await log.first('batch.committed', (event) => event.queue === queue)).toMatchObject({ acked: 1 })
      expect(log.of('message.cancelled')).toEqual([])
    })

    test('ends with the poll that finds its request, where no notification comes', async ({ database, queue }) => {
      const { log, id, ended } = await keptInHand(database, queue, mode, { pollInterval: 100 })
      await cancelUnheard(database, queue, id)
      await ended
      await untilEmpty(database, queue)
      expect(log.of('message.cancelled')).toMatchObject([{ queue, id }])
    })

    test('ends as soon as a listener that was down hears again', async ({ database, queue }) => {
      const { log, id, ended } = await keptInHand(database, queue, mode)
      await cancelUnheard(database, queue, id)
      await endSessions(database, 'sluice listener')
      await ended
      await untilEmpty(database, queue)
      expect(log.of('message.cancelled')).toMatchObject([{ queue, id }])
    })

    test('does not end by a request that was made before it was claimed', async ({ database, queue }) => {
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      const ids = await put(sluice, queue, ['before', 'since'])
      await database.sql('INSERT INTO sluice.cancel_request (queue, message_id) VALUES ($1, $2)', [queue, ids[0]])
      const [both, over] = [deferred(), deferred()]
      const signals = new Map<unknown, AbortSignal>()
      sluice
        .pipeline(queue, { mode: mode as 'transactional', concurrency: 2, batchSize: 1 })
        .handle(async ({ payload }, { signal }) => {
          signals.set(payload, signal)
          if (signals.size === 2) both.resolve()
          await Promise.race([over.promise, new Promise((resolve) => signal.addEventListener('abort', resolve))])
        })
        .start()
      await both.promise
      await cancelUnheard(database, queue, ids[1]!)
      // One look finds both requests, that of the first message first.
      await endSessions(database, 'sluice listener')
      await waitFor(() => signals.get('since')?.aborted, { what: 'the request that counts' })
      expect(signals.get('before')?.aborted).toBe(false)
      over.resolve()
    })
  })
}

const ENDS = {
  'ends well': async () => undefined,
  fails: async () => {
    throw new Error('failed')
  },
  'renews its lease': ({ extend }) => extend(),
  'begins its transaction': ({ transaction }) => transaction((tx) => tx.query('SELECT 1')),
} as const satisfies Record<string, (context: LeasedContext) => Promise<unknown>>

describe('a leased message that is cancelled, and whose worker does not hear of it,', () => {
  for (const [what, end] of Object.entries(ENDS)) {
    test(`is reported as cancelled when its handler ${what}`, async ({ database, queue }) => {
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      const log = new EventLog(sluice.events)
      const [begun, go] = [deferred(), deferred()]
      const pipeline = sluice
        .pipeline(queue, { mode: 'leased' })
        .handle(async (_, context) => {
          begun.resolve()
          await go.promise
          await end(context)
        })
        .start()
      const [id] = await put(sluice, queue, [1])
      await begun.promise
      await cancelUnheard(database, queue, id!)
      go.resolve()
      await pipeline.drain()
      expect(log.of('message.cancelled')).toMatchObject([{ queue, id, attempt: 1 }])
      expect(log.of('lease.lost')).toEqual([])
    })
  }
})

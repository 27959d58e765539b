import { describe, expect, onTestFinished } from 'vitest'
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { numbers, QUICK } from '../../support/inboxes.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { FakeKafka } from '../../support/servers/fake-kafka.ts'
import type { LoginFault, LoginStep } from '../../support/servers/fake-kafka-login.ts'
import { test as base, put } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base
  .extend('broker', () => FakeKafka.start({ orders: 1 }))
  // What a connection throws outside of any call ends a process.
  .extend('uncaught', () => {
    const uncaught: unknown[] = []
    const note = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtException', note)
    onTestFinished(() => void process.off('uncaughtException', note))
    return uncaught
  })

const server = ({ port }: FakeKafka) => ({
  servers: `127.0.0.1:${port}`,
  topic: 'orders',
  connection: { sasl: { mechanism: 'PLAIN', username: 'shop', password: 'secret' } } as const,
})

const FAULTS: readonly LoginFault[] = ['reset', 'stray answer']
const FIRST: readonly LoginStep[] = ['handshake', 'password']
const LATER: readonly LoginStep[] = ['handshake again', 'password again']
const each = (steps: readonly LoginStep[]) => steps.flatMap((step) => FAULTS.map((fault) => [step, fault] as const))

describe('a login that breaks is an outage', () => {
  test.for(each(FIRST))(
    'of a relay: %s, %s',
    async ([step, fault], { database, sluice, queue, log, broker, uncaught }) => {
      broker.login.faults.set(step, fault)
      await put(sluice, queue, [1])
      const running = sluice.relay(queue, { to: kafka(server(broker)), breaker: QUICK }).start()
      expect(await log.first('relay.unavailable')).toMatchObject({
        cause: 'outage',
        error: expect.stringContaining(String(broker.port)),
      })
      broker.login.faults.clear()
      await untilEmpty(database, queue)
      await running.drain()
      expect(uncaught).toEqual([])
    },
  )

  test.for(each(FIRST))(
    'of an inbox: %s, %s',
    async ([step, fault], { database, sluice, queue, log, broker, uncaught }) => {
      broker.login.faults.set(step, fault)
      broker.put('orders', 0, { value: '0' })
      const from = fromKafka({ ...server(broker), group: 'billing', sessionTimeout: '1s' })
      const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
      expect(await log.first('inbox.unavailable')).toMatchObject({
        cause: 'outage',
        error: expect.stringContaining(String(broker.port)),
      })
      broker.login.faults.clear()
      await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the message' })
      await running.drain()
      expect(uncaught).toEqual([])
    },
  )
})

describe('a connection that breaks while it logs in again is replaced', () => {
  test.for(each(LATER))('of a relay: %s, %s', async ([step, fault], { database, sluice, queue, broker, uncaught }) => {
    broker.login.sessionMs = SESSION_MS
    broker.login.faults.set(step, fault)
    const running = sluice.relay(queue, { to: kafka(server(broker)), breaker: QUICK }).start()
    for (const n of numbers(3)) {
      await put(sluice, queue, [n])
      await untilEmpty(database, queue)
      await waitFor(() => broker.login.broken > n, { what: 'a broken login' })
    }
    await running.drain()
    expect(uncaught).toEqual([])
  })

  test.for(each(LATER))('of an inbox: %s, %s', async ([step, fault], { database, sluice, queue, broker, uncaught }) => {
    broker.login.sessionMs = SESSION_MS
    broker.login.faults.set(step, fault)
    const from = fromKafka({ ...server(broker), group: 'billing', sessionTimeout: '1s' })
    const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
    await waitFor(() => broker.login.broken >= 3, { what: 'broken logins' })
    broker.login.faults.clear()
    broker.put('orders', 0, { value: '0' })
    await waitFor(async () => (await payloadsOf(database, queue)).length === 1, { what: 'the message' })
    await running.drain()
    expect(uncaught).toEqual([])
  })
})

/** The client logs in again after four fifths of it. */
const SESSION_MS = 200

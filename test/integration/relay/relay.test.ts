import { setTimeout } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import type { OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base.extend('to', () => new MemoryDestination())

const payloads = (messages: readonly OutgoingMessage[]) => messages.map(({ message }) => message.payload)
/** Answers some payloads in another way. */
const answering =
  (verdicts: Readonly<Record<string, Verdict>>) =>
  ({ message }: OutgoingMessage): Verdict =>
    verdicts[String(message.payload)] ?? { kind: 'confirmed' }

const deadLettersOf = (database: TestDatabase, queue: string) =>
  database.sql<{ payload: unknown; reason: string }>(
    'SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id',
    [queue],
  )

const QUICK = { delay: '10ms', maxDelay: '20ms' } as const
const REFUSED: Verdict = { kind: 'refused', error: 'too large' }
const FAILED: Verdict = { kind: 'failed', error: 'not now' }
const UNAVAILABLE: Verdict = { kind: 'unavailable', error: 'no leader' }

describe('a relay', () => {
  test('publishes each message with the name of the database, its body as it is stored and its headers', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    const [id] = await put(sluice, queue, [{ total: 12, text: 'é' }], {
      type: 'order.placed',
      orderingKey: 'grüße %',
      headers: { traceparent: 'abc', priority: 3 },
    })
    const settled = await sluice.relay(queue, { to }).runOnce()
    const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
    expect(settled.counts).toMatchObject({ acked: 1 })
    const [stored] = to.stored
    expect(stored).toMatchObject({ id: `${source?.id}/${id}`, source: source?.id })
    expect(JSON.parse(new TextDecoder().decode(stored?.body))).toEqual({ total: 12, text: 'é' })
    expect(stored?.headers).toMatchObject({
      traceparent: 'abc',
      priority: '3',
      'sluice-message-id': id,
      'sluice-queue': queue,
      'sluice-type': 'order.placed',
      'sluice-ordering-key': 'gr%C3%BC%C3%9Fe%20%25',
      'sluice-schema-version': '1',
    })
    expect(await payloadsOf(database, queue)).toEqual([])
    expect(to.connections).toBe(0)
  })

  test('removes a row only when its message is confirmed, and the others as their verdicts say', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    await put(sluice, queue, [1, 2, 3, 4])
    to.answer = answering({ 2: REFUSED, 3: FAILED, 4: UNAVAILABLE })
    const settled = await sluice.relay(queue, { to, batchSize: 4, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
    // The rest is released once, and found again: then nothing is confirmed, and the relay is down.
    expect(settled.counts).toEqual({ acked: 1, retried: 1, snoozed: 0, dead: 1 })
    expect(
      await database.sql('SELECT payload, attempt, last_error FROM sluice.message WHERE queue = $1 ORDER BY id', [
        queue,
      ]),
    ).toEqual([
      { payload: 3, attempt: 1, last_error: 'not now' },
      { payload: 4, attempt: 0, last_error: null },
    ])
    expect(await deadLettersOf(database, queue)).toMatchObject([{ payload: 2, reason: 'too large' }])
  })

  test('sends a message of a key when the one before it is confirmed, and others beside it', async ({
    sluice,
    queue,
    to,
  }) => {
    await put(sluice, queue, ['a1', 'a2', 'a3'], { orderingKey: 'a' })
    await put(sluice, queue, ['b1', 'b2'], { orderingKey: 'b' })
    await put(sluice, queue, ['c', 'd'])
    const confirm = { a1: deferred<Verdict>(), b1: deferred<Verdict>() }
    to.answer = ({ message }) => confirm[message.payload as 'a1']?.promise ?? { kind: 'confirmed' }
    const running = sluice.relay(queue, { to, concurrency: 1 }).start()
    await waitFor(() => to.sent.length >= 4, { what: 'the first wave' })
    expect(payloads(to.sent).toSorted()).toEqual(['a1', 'b1', 'c', 'd'])
    confirm.b1.resolve({ kind: 'confirmed' })
    confirm.a1.resolve({ kind: 'confirmed' })
    await waitFor(() => to.stored.length === 7, { what: 'all messages' })
    expect(payloads(to.sent).slice(4, 6).toSorted()).toEqual(['a2', 'b2'])
    expect(payloads(to.sent).slice(6)).toEqual(['a3'])
    await running.drain()
  })

  test('a refused message lets the next of its key go on, and a failed one keeps it back', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    await put(sluice, queue, ['a1', 'a2'], { orderingKey: 'a' })
    await put(sluice, queue, ['b1', 'b2'], { orderingKey: 'b' })
    to.answer = answering({ a1: REFUSED, b1: FAILED })
    await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
    expect(payloads(to.sent).slice(0, 2).toSorted()).toEqual(['a1', 'b1'])
    expect(payloads(to.sent).slice(2)).toEqual(['a2'])
    expect(await payloadsOf(database, queue)).toEqual(['b1', 'b2'])
  })

  test('a message with a header that could pass for another is dead before it is sent', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    await put(sluice, queue, [1], { headers: { 'Sluice-Queue': 'other' } })
    await put(sluice, queue, [2], { headers: { text: 'a\r\nevil: yes' } })
    await put(sluice, queue, [3], { headers: { 'a b': 'c' } })
    await sluice.relay(queue, { to }).runOnce()
    expect(to.sent).toEqual([])
    const dead = await deadLettersOf(database, queue)
    expect(dead.map(({ reason }) => reason)).toEqual([
      'header "Sluice-Queue": expected a name that does not begin with sluice-',
      'header "text": expected a value without control characters',
      `header "a b": expected a name of letters, digits and !#$%&'*+-.^_\`|~`,
    ])
  })
})

describe('while its destination is out of reach, a relay', () => {
  test('counts no attempt, has no transaction open, says since when, and goes on by one message', async ({
    database,
    sluice,
    queue,
    log,
    to,
  }) => {
    await put(
      sluice,
      queue,
      Array.from({ length: 250 }, (_, n) => n),
    )
    to.answer = () => UNAVAILABLE
    const running = sluice.relay(queue, { to, breaker: QUICK }).start()
    await waitFor(() => log.of('relay.unavailable').length >= 5, { what: 'five tries' })
    to.reachable = false
    const [first] = log.of('relay.unavailable')
    expect(first).toMatchObject({ queue, destination: 'memory', error: 'no leader' })
    const unreached = await log.first('relay.unavailable', ({ error }) => error === 'out of reach')
    expect(unreached.since).toEqual(first?.since)
    // Without a connection nothing is claimed at all.
    const open = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'`
    const sent = to.sent.length
    await waitFor(async () => (await database.sql<{ n: number }>(open))[0]?.n === 0, { what: 'no open transaction' })
    await waitFor(() => log.of('relay.unavailable').length >= 12, { what: 'more tries' })
    expect(await database.sql<{ n: number }>(open)).toEqual([{ n: 0 }])
    expect(to.sent.length).toBe(sent)
    expect(
      await database.sql('SELECT DISTINCT attempt, last_error FROM sluice.message WHERE queue = $1', [queue]),
    ).toEqual([{ attempt: 0, last_error: null }])
    to.answer = () => ({ kind: 'confirmed' })
    to.reachable = true
    await waitFor(() => to.stored.length === 250, { what: 'all messages' })
    expect(log.of('relay.available')).toMatchObject([{ queue, since: first?.since }])
    // Each try by messages took one, but for the batches in flight when it went down.
    expect(payloads(to.stored.slice(0, 1))).toEqual([0])
    await running.drain()
    expect(to.connections).toBe(0)
  })

  test('ends a runOnce, and leaves the messages as they were', async ({ database, sluice, queue, log, to }) => {
    await put(sluice, queue, [1, 2])
    to.reachable = false
    expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(0)
    to.reachable = true
    to.answer = () => UNAVAILABLE
    expect((await sluice.relay(queue, { to }).runOnce()).counts.acked).toBe(0)
    expect(log.of('relay.unavailable').map(({ error }) => error)).toEqual(['out of reach', 'no leader'])
    expect(await payloadsOf(database, queue)).toEqual([1, 2])
  })

  test('takes a confirm that does not come in time for that, and publishes with the same id again', async ({
    sluice,
    queue,
    log,
    to,
  }) => {
    await put(sluice, queue, [1, 2])
    to.answer = () => new Promise(() => undefined)
    const running = sluice.relay(queue, { to, confirmTimeout: '100ms', breaker: QUICK }).start()
    expect(await log.first('relay.unavailable')).toMatchObject({ error: 'no answer in time' })
    to.answer = () => ({ kind: 'confirmed' })
    await waitFor(() => to.stored.length === 2, { what: 'both messages' })
    await running.drain()
    expect(new Set(to.sent.map(({ id }) => id)).size).toBe(2)
    expect(to.sent.length).toBeGreaterThan(2)
  })

  test('releases what it could not send, while what was confirmed is gone', async ({ database, sluice, queue, to }) => {
    await put(sluice, queue, [1, 2, 3])
    await put(sluice, queue, ['a1', 'a2'], { orderingKey: 'a' })
    to.answer = answering({ 2: UNAVAILABLE })
    await sluice.relay(queue, { to }).runOnce()
    expect(payloads(to.stored)).toContain('a1')
    expect(await payloadsOf(database, queue)).toEqual([2])
    expect(await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ attempt: 0 }])
  })

  test('reads the name of the database again when it connects again', async ({ database, sluice, queue, log, to }) => {
    await put(sluice, queue, [1])
    const running = sluice.relay(queue, { to, breaker: QUICK }).start()
    await waitFor(() => to.stored.length === 1, { what: 'the first message' })
    to.reachable = false
    await put(sluice, queue, [2])
    await log.first('relay.unavailable')
    await database.sql('UPDATE sluice.source SET id = DEFAULT')
    to.reachable = true
    await waitFor(() => to.stored.length === 2, { what: 'the second message' })
    const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
    expect(to.stored.map((stored) => stored.source === source?.id)).toEqual([false, true])
    await running.drain()
  })

  test('stops at once', async ({ sluice, queue, log, to }) => {
    await put(sluice, queue, [1])
    to.reachable = false
    const running = sluice.relay(queue, { to, breaker: { delay: '1h', maxDelay: '1h' } }).start()
    await log.first('relay.unavailable')
    await running.drain()
    expect(to.sent).toEqual([])
  })
})

test('a relay that is stopped between a publication and its confirm leaves the message as it was', async ({
  database,
  sluice,
  queue,
  log,
  to,
}) => {
  await put(sluice, queue, [1])
  to.answer = () => new Promise(() => undefined)
  const running = sluice.relay(queue, { to }).start()
  await waitFor(() => to.sent.length === 1, { what: 'the publication' })
  await running.stop()
  expect(await payloadsOf(database, queue)).toEqual([1])
  expect(log.of('relay.unavailable')).toEqual([])
  expect(to.connections).toBe(0)
})

test('a relay connects to a destination that takes longer for that than for a confirm', async ({
  database,
  sluice,
  queue,
  log,
  to,
}) => {
  await put(sluice, queue, [1])
  const distant = {
    system: to.system,
    open: async () => {
      await setTimeout(300)
      return to.open()
    },
  }
  const running = sluice.relay(queue, { to: distant, confirmTimeout: '100ms', breaker: QUICK }).start()
  await untilEmpty(database, queue)
  expect(log.of('relay.unavailable').filter(({ error }) => error === 'no connection in time')).toEqual([])
  await running.drain()
})

test('a relay has no more bytes under way than it may', async ({ sluice, queue, to }) => {
  await put(sluice, queue, ['x'.repeat(500), 'y'.repeat(500), 'z'.repeat(2_000), 'w'])
  const gates = new Map<string, PromiseWithResolvers<Verdict>>()
  to.answer = ({ message }) => {
    const gate = deferred<Verdict>()
    gates.set(String(message.payload)[0] ?? '', gate)
    return gate.promise
  }
  const running = sluice.relay(queue, { to, concurrency: 1, maxInFlightBytes: 1_100 }).start()
  for (const portion of [['x', 'y'], ['z'], ['w']]) {
    await waitFor(() => portion.every((one) => gates.has(one)), { what: portion.join() })
    expect([...gates.keys()]).toEqual(portion)
    for (const gate of gates.values()) gate.resolve({ kind: 'confirmed' })
    gates.clear()
  }
  await running.drain()
})

test('options that make no sense are refused by name', ({ sluice, queue, to }) => {
  expect(() => sluice.relay(queue, { to: {} as never })).toThrow(/relay\("q\.\d+"\)\.to: expected a destination/)
  expect(() => sluice.relay(queue, { to, confirmTimeout: '2m' })).toThrow(/confirmTimeout/)
  expect(() => sluice.relay(queue, { to, breaker: { delay: '3m', maxDelay: '2m' } })).toThrow(/maxDelay/)
  expect(() => sluice.relay(queue, { to, timeout: '3m' } as never)).toThrow(/timeout/)
})

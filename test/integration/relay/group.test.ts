import { describe, expect } from 'vitest'
import type { OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { append, test as base } from '../../support/streams.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base
  .extend('to', () => new MemoryDestination())
  /** A stream of one partition, whose group "all" begins at its start. */
  .extend('narrow', async ({ database, sluice, stream }) => {
    const narrow = `${stream}.one`
    await database.sql('SELECT sluice.create_stream($1, 1)', [narrow])
    await sluice.groups.set(narrow, 'all', { from: 'start' })
    return narrow
  })

const QUICK = { delay: '10ms', maxDelay: '20ms' } as const
const IN_AN_HOUR = { kind: 'fixed', delay: '1h' } as const
const CONFIRMED: Verdict = { kind: 'confirmed' }
const REFUSED: Verdict = { kind: 'refused', error: 'too large' }
const FAILED: Verdict = { kind: 'failed', error: 'not now' }
const UNAVAILABLE: Verdict = { kind: 'unavailable', error: 'no leader' }

const payloads = (messages: readonly OutgoingMessage[]) => messages.map(({ message }) => message.payload)
const confirm = () => CONFIRMED

/** Answers some payloads in another way. */
const answering =
  (verdicts: Readonly<Record<string, Verdict>>) =>
  ({ message }: OutgoingMessage): Verdict =>
    verdicts[String(message.payload)] ?? CONFIRMED

/** In the order in which each was first published. */
const firstsOf = (messages: readonly OutgoingMessage[]) => [...new Set(payloads(messages))]

const deferredIn = ({ sql }: TestDatabase, stream: string) =>
  sql('SELECT payload, attempt FROM sluice.message WHERE queue = $1 ORDER BY event_position', [`${stream}:all`])

describe('a relay of a group', () => {
  test('publishes the events of a stream to a destination for each group, under the same ids', async ({
    database,
    sluice,
    stream,
    to,
  }) => {
    await sluice.groups.set(stream, 'second', { from: 'start' })
    const other = new MemoryDestination()
    const options = { orderingKey: 'ada', type: 'order.placed', headers: { traceparent: 'abc' } }
    const position = await sluice.append(sluice.ownTransaction, stream, { total: 12 }, options)
    await append(database, stream, [[2], [3]])
    const relay = sluice.relay({ stream, group: 'all' }, { to })
    expect(relay.queue).toBe(`${stream}:all`)
    expect((await relay.runOnce()).counts).toMatchObject({ acked: 3 })
    expect((await relay.runOnce()).counts).toMatchObject({ acked: 0 })
    await sluice.relay({ stream, group: 'second' }, { to: other }).runOnce()
    const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
    const first = to.stored.find(({ message }) => message.position === position)
    expect(first).toMatchObject({ id: `${source?.id}/${stream}/${position}`, source: source?.id })
    expect(first?.headers).toEqual({
      traceparent: 'abc',
      'sluice-message-id': `${stream}/${position}`,
      'sluice-stream': stream,
      'sluice-position': String(position),
      'sluice-type': 'order.placed',
      'sluice-ordering-key': 'ada',
      'sluice-schema-version': '1',
      'sluice-enqueued-at': expect.stringMatching(/Z$/),
    })
    const looks = (one: MemoryDestination) =>
      one.stored.map(({ id, headers }) => ({ id, headers })).toSorted((a, b) => a.id.localeCompare(b.id))
    expect(looks(other)).toEqual(looks(to))
  })

  test('makes a refused event a dead letter, and defers a failed one with the later ones of its key', async ({
    database,
    sluice,
    narrow,
    to,
  }) => {
    await append(database, narrow, [['a1', 'a'], ['b1', 'b'], ['a2', 'a'], ['b2', 'b'], ['c']])
    to.answer = answering({ a1: REFUSED, b1: FAILED })
    const relay = sluice.relay({ stream: narrow, group: 'all' }, { to, retry: IN_AN_HOUR })
    expect((await relay.runOnce()).counts).toMatchObject({ acked: 2, retried: 1, dead: 1 })
    expect(payloads(to.stored)).toEqual(['c', 'a2'])
    expect(
      await database.sql('SELECT payload, reason FROM sluice.dead_letters WHERE queue = $1', [relay.queue]),
    ).toEqual([{ payload: 'a1', reason: 'too large' }])
    expect(await deferredIn(database, narrow)).toEqual([
      { payload: 'b1', attempt: 1 },
      { payload: 'b2', attempt: 0 },
    ])
    to.answer = confirm
    const due = 'UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1 AND attempt = 1'
    await database.sql(due, [relay.queue])
    await waitFor(async () => (await relay.runOnce()) && to.stored.length === 4, { what: 'the deferred events' })
    expect(payloads(to.stored).slice(2)).toEqual(['b1', 'b2'])
  })

  test('publishes again, under the same ids, what its group is moved back to', async ({
    database,
    sluice,
    stream,
    to,
  }) => {
    const [, second] = await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
      [3, 'a'],
    ])
    const relay = sluice.relay({ stream, group: 'all' }, { to })
    await relay.runOnce()
    await sluice.groups.seek(stream, 'all', { position: second ?? 0 })
    await relay.runOnce()
    expect(payloads(to.stored)).toEqual([1, 2, 3, 2, 3])
    const ids = to.stored.map(({ id }) => id)
    expect(ids.slice(3)).toEqual(ids.slice(1, 3))
  })

  test('publishes an event again whose transaction is lost between the confirm and COMMIT, and counts no attempt', async ({
    database,
    sluice,
    narrow,
    log,
    to,
  }) => {
    await append(database, narrow, [[1], [2]])
    const cut = deferred()
    to.answer = async () => {
      to.answer = confirm
      await database.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`,
      )
      cut.resolve()
      return CONFIRMED
    }
    const running = sluice.relay({ stream: narrow, group: 'all' }, { to, concurrency: 1 }).start()
    await cut.promise
    await waitFor(async () => (await sluice.groups.list({ stream: narrow }))[0]?.unread === 0, { what: 'the progress' })
    await running.drain()
    expect(to.stored.length).toBeGreaterThan(2)
    expect(new Set(to.stored.map(({ id }) => id)).size).toBe(2)
    expect(log.of('message.failed')).toEqual([])
  })

  test('goes on where it has stopped', async ({ database, sluice, stream, to }) => {
    const events = Array.from({ length: 300 }, (_, n) => [n, `k${n % 7}`] as const)
    await append(database, stream, events)
    const relay = sluice.relay({ stream, group: 'all' }, { to, batchSize: 10, concurrency: 2 })
    const first = relay.start()
    await waitFor(() => to.stored.length > 0, { what: 'the first events' })
    await first.drain()
    const second = relay.start()
    await waitFor(async () => (await sluice.groups.list({ stream }))[0]?.unread === 0, { what: 'all events' })
    await second.drain()

    expect(payloads(to.stored).toSorted((a, b) => Number(a) - Number(b))).toEqual(events.map(([n]) => n))
    expect(to.connections).toBe(0)
  })

  test('publishes each key in order and loses nothing, whatever the destination answers', async ({
    database,
    sluice,
    stream,
    to,
  }) => {
    const events = Array.from({ length: 200 }, (_, n) => (n % 4 === 0 ? ([n] as const) : ([n, `k${n % 5}`] as const)))
    await append(database, stream, events)
    let asked = 0
    to.answer = () => {
      asked += 1
      if (asked % 19 === 0) return UNAVAILABLE
      return asked % 11 === 0 ? FAILED : CONFIRMED
    }
    const retry = { kind: 'fixed', delay: 0 } as const
    const relay = sluice.relay({ stream, group: 'all' }, { to, retry, breaker: QUICK, batchSize: 20 })
    const running = relay.start()
    await waitFor(() => firstsOf(to.stored).length === 200, { what: 'all events' })
    await running.drain()
    for (const key of ['k0', 'k1', 'k2', 'k3', 'k4']) {
      const ofKey = to.stored.filter(({ message }) => message.orderingKey === key)
      expect(firstsOf(ofKey)).toEqual(events.filter(([, one]) => one === key).map(([n]) => n))
    }
    expect(await database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [relay.queue])).toEqual([])
  })
})

describe('while its destination is out of reach, a relay of a group', () => {
  test('counts no attempt, writes nothing, has no transaction open, and goes on by one event', async ({
    database,
    sluice,
    narrow,
    log,
    to,
  }) => {
    const events = Array.from({ length: 250 }, (_, n) => [n] as const)
    await append(database, narrow, events)
    const standing = async () => {
      const [partition] = await sluice.operate.groups.partitions(narrow, 'all')
      return { at: partition?.nextPosition, movedAt: partition?.movedAt, blockedBy: partition?.blockedBy }
    }
    const before = await standing()
    to.answer = () => UNAVAILABLE
    const running = sluice.relay({ stream: narrow, group: 'all' }, { to, breaker: QUICK }).start()
    const downs = () => log.of('relay.unavailable')
    await waitFor(() => downs().length >= 2, { what: 'the first try' })
    const [sent, tries] = [to.sent.length, downs().length]
    await waitFor(() => downs().length >= tries + 4, { what: 'more tries' })
    expect(to.sent.length - sent).toBeLessThanOrEqual(downs().length - tries + 1)
    expect(downs()[0]).toMatchObject({ queue: `${narrow}:all`, destination: 'memory', error: 'no leader' })
    to.reachable = false
    await log.first('relay.unavailable', ({ error }) => error === 'out of reach')
    const open = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'`
    await waitFor(async () => (await database.sql<{ n: number }>(open))[0]?.n === 0, { what: 'no open transaction' })
    expect(await standing()).toEqual(before)
    expect(await deferredIn(database, narrow)).toEqual([])
    to.answer = confirm
    to.reachable = true
    await waitFor(() => to.stored.length === 250, { what: 'all events' })
    await running.drain()
    expect(payloads(to.stored).toSorted((a, b) => Number(a) - Number(b))).toEqual(events.map(([n]) => n))
  })

  test('keeps what came before the event without an answer, and publishes again what was confirmed behind it', async ({
    database,
    sluice,
    narrow,
    log,
    to,
  }) => {
    const [, second] = await append(database, narrow, [[1], [2], [3], ['refused'], ['failed', 'a'], ['later', 'a']])
    to.answer = answering({ 2: UNAVAILABLE, refused: REFUSED, failed: FAILED })
    const relay = sluice.relay({ stream: narrow, group: 'all' }, { to, retry: IN_AN_HOUR })
    expect((await relay.runOnce()).counts).toEqual({ acked: 1, retried: 0, snoozed: 0, dead: 0 })
    expect(log.of('relay.unavailable')).toMatchObject([{ error: 'no leader' }])
    expect(await sluice.operate.groups.partitions(narrow, 'all')).toMatchObject([{ nextPosition: second, unread: 5 }])
    expect(await deferredIn(database, narrow)).toEqual([])
    to.answer = confirm
    await relay.runOnce()
    expect(payloads(to.stored)).toEqual([1, 3, 2, 3, 'refused', 'failed', 'later'])
    expect(new Set(to.stored.map(({ id }) => id)).size).toBe(6)
    expect(log.of('message.dead')).toEqual([])
  })
})

describe('a relay of a group that stops', () => {
  const inOrder = test.extend('strict', async ({ sluice, narrow }) => {
    await sluice.groups.set(narrow, 'all', { onFailure: 'stop' })
    return narrow
  })

  for (const [verdict, left] of [
    [FAILED, { attempt: 1, error: 'not now' }],
    [REFUSED, { attempt: 1, error: 'too large', until: null }],
    [UNAVAILABLE, null],
  ] as const)
    inOrder(`sends nothing behind an event that is ${verdict.kind}`, async ({ database, sluice, strict, to }) => {
      await append(database, strict, [[1], [2, 'a'], [3, 'b'], [4]])
      to.answer = answering({ 2: verdict })
      const relay = sluice.relay({ stream: strict, group: 'all' }, { to, retry: IN_AN_HOUR })
      await relay.runOnce()
      expect(payloads(to.sent)).toEqual([1, 2])
      const [partition] = await sluice.operate.groups.partitions(strict, 'all')
      expect(partition?.unread).toBe(3)
      if (left === null) expect(partition?.blockedBy).toBeNull()
      else expect(partition?.blockedBy).toMatchObject(left)
      to.answer = confirm
      await sluice.operate.groups.retry(strict, 'all')
      await relay.runOnce()
      expect(payloads(to.sent)).toEqual([1, 2, 2, 3, 4])
    })

  inOrder(
    'sends nothing behind an event with a header that could pass for another',
    async ({ sluice, strict, log, to }) => {
      const put = (payload: unknown, headers = {}) => sluice.append(sluice.ownTransaction, strict, payload, { headers })
      await put(1)
      const second = await put(2, { 'Sluice-Queue': 'other' })
      await put(3)
      const relay = sluice.relay({ stream: strict, group: 'all' }, { to })
      await relay.runOnce()
      expect(payloads(to.sent)).toEqual([1])
      expect(log.of('partition.stopped')).toMatchObject([{ destination: 'memory', position: second }])
      await sluice.operate.groups.skip(strict, 'all', second)
      await relay.runOnce()
      expect(payloads(to.sent)).toEqual([1, 3])
    },
  )
})

test('a relay publishes a queue or a group, and is refused for anything else', ({ database, sluice, stream, to }) => {
  const typed = startTestSluice(database, { queues: { mails: {} }, streams: { orders: {} } })
  const relay = (source: unknown) => () => typed.relay(source as 'mails', { to })
  expect(relay('orders')).toThrow('That is a stream: name a group that reads it. As in relay({ stream:')
  expect(relay('orders:all')).toThrow('expected the name of a queue')
  expect(relay({ stream: 'others', group: 'all' })).toThrow(expect.objectContaining({ code: 'STREAM_UNKNOWN' }))
  expect(relay({ stream: 'orders' })).toThrow('relay.group: expected a name')
  expect(relay({ stream: 'orders', group: 'all', from: 'start' })).toThrow('expected only the options stream, group')
  expect(relay(undefined)).toThrow(expect.objectContaining({ code: 'QUEUE_NAME_INVALID' }))
  expect(() => sluice.relay({ stream, group: 'all' }, { to, ordered: true } as never)).toThrow('relay("s.')
})

import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { instrument } from '../../../src/otel.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { activeSpanId, startTracing } from '../../support/tracing.ts'
import { waitFor } from '../../support/wait.ts'

const test = base
  .extend('tracing', () => startTracing())
  .extend('traced', ({ sluice, tracing }) => instrument(sluice, tracing.providers))

function contextOf(span: ReadableSpan | undefined) {
  return { traceId: span?.spanContext().traceId, spanId: span?.spanContext().spanId }
}

describe('a trace', () => {
  test('goes from the transaction that enqueues to the handler of another process', async ({
    database,
    queue,
    tracing,
    traced,
  }) => {
    const producer = instrument(startTestSluice(database), tracing.providers)
    const client = new pg.Client(database.url)
    onTestFinished(() => client.end())
    await client.connect()
    const id = await tracing.tracer.startActiveSpan('request', async (span) => {
      await client.query('BEGIN')
      const enqueued = await producer.enqueue(client, queue, { to: 'ada' }, { type: 'mail.welcome' })
      await client.query('COMMIT')
      span.end()
      return enqueued
    })
    let active: string | undefined
    await traced
      .pipeline(queue)
      .handle(async () => {
        await new Promise(setImmediate)
        active = activeSpanId()
      })
      .runOnce()
    const [request] = tracing.spans('request')
    const [send] = tracing.spans(`send ${queue}`)
    const [process] = tracing.spans(`process ${queue}`)
    expect(send?.parentSpanContext).toMatchObject(contextOf(request))
    expect(send?.kind).toBe(SpanKind.PRODUCER)
    expect(send?.attributes).toEqual({
      'messaging.system': 'sluice',
      'messaging.operation.name': 'send',
      'messaging.operation.type': 'send',
      'messaging.destination.name': queue,
      'messaging.message.id': id,
    })
    expect(process?.parentSpanContext).toMatchObject({ ...contextOf(send), isRemote: true })
    expect(process?.kind).toBe(SpanKind.CONSUMER)
    expect(process?.attributes).toEqual({
      'messaging.system': 'sluice',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': queue,
      'messaging.message.id': id,
      'sluice.message.attempt': 1,
      'sluice.message.type': 'mail.welcome',
      'sluice.outcome': 'ack',
    })
    expect(active).toBe(process?.spanContext().spanId)
  })

  test.for(['transactional', 'leased'] as const)(
    'has each attempt of a message, in %s mode',
    async (mode, { queue, tracing, traced }) => {
      await put(traced, queue, [1])
      const running = traced
        .pipeline(queue, { mode: mode as 'transactional', retry: { kind: 'fixed', delay: '1ms' } })
        .handle((_, { attempt }) => (attempt < 3 ? raise(new TypeError('not yet')) : undefined))
        .start()
      await waitFor(() => running.statistics().acked === 1, { what: 'the third attempt' })
      const [send] = tracing.spans(`send ${queue}`)
      const attempts = tracing.spans(`process ${queue}`)
      expect(attempts.map(({ attributes }) => attributes['sluice.message.attempt'])).toEqual([1, 2, 3])
      for (const span of attempts) expect(span.parentSpanContext).toMatchObject(contextOf(send))
      expect(attempts.map(({ status }) => status.code)).toEqual([
        SpanStatusCode.ERROR,
        SpanStatusCode.ERROR,
        SpanStatusCode.UNSET,
      ])
      expect(attempts[0]?.attributes['error.type']).toBe('TypeError')
      expect(attempts[0]?.events[0]?.attributes).toMatchObject({ 'exception.message': 'not yet' })
    },
  )

  test('goes on in what a handler enqueues', async ({ queue, tracing, traced }) => {
    const next = `${queue}.next`
    await put(traced, queue, [1])
    await traced
      .pipeline(queue)
      .handle(async (_, { enqueue }) => void (await enqueue(next, 2)))
      .runOnce()
    const [process] = tracing.spans(`process ${queue}`)
    const [send] = tracing.spans(`send ${next}`)
    expect(send?.parentSpanContext).toMatchObject(contextOf(process))
  })

  test('goes on after a redrive', async ({ queue, tracing, traced }) => {
    await put(traced, queue, [1], { maxAttempts: 1 })
    let works = false
    const pipeline = traced.pipeline(queue).handle(() => (works ? undefined : raise()))
    await pipeline.runOnce()
    works = true
    await traced.operate.deadLetters.redrive({ queue })
    await pipeline.runOnce()
    const [send] = tracing.spans(`send ${queue}`)
    const traces = tracing.spans(`process ${queue}`).map((span) => span.spanContext().traceId)
    expect(traces).toEqual([send?.spanContext().traceId, send?.spanContext().traceId])
  })

  test('is another one for each attempt that links to the enqueue, if asked for', async ({
    sluice,
    queue,
    tracing,
  }) => {
    const traced = instrument(sluice, { ...tracing.providers, join: 'link' })
    await put(traced, queue, [1])
    await traced
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    const [send] = tracing.spans(`send ${queue}`)
    const [process] = tracing.spans(`process ${queue}`)
    expect(process?.parentSpanContext).toBeUndefined()
    expect(process?.links).toMatchObject([{ context: contextOf(send) }])
  })

  test('of a whole batch links to the enqueues of its messages', async ({ queue, tracing, traced }) => {
    await put(traced, queue, [1, 2])
    await put(traced, queue, [3])
    await traced
      .pipeline(queue, { batchSize: 10 })
      .handleBatch(() => undefined)
      .runOnce()
    const sends = tracing.spans(`send ${queue}`)
    expect(sends.map(({ attributes }) => attributes['messaging.batch.message_count'])).toEqual([2, undefined])
    const [process, ...others] = tracing.spans(`process ${queue}`)
    expect(others).toEqual([])
    expect(process?.attributes['messaging.batch.message_count']).toBe(3)
    expect(process?.links).toMatchObject([sends[0], sends[0], sends[1]].map((span) => ({ context: contextOf(span) })))
  })

  test('of an event reaches the handler of each group', async ({ database, queue, tracing, traced }) => {
    const stream = `stream.${queue}`
    await traced.streams.set(stream)
    for (const group of ['one', 'two']) await traced.groups.set(stream, group, { from: 'start' })
    await traced.append(traced.ownTransaction, stream, { id: 7 })
    for (const group of ['one', 'two'])
      await traced
        .pipeline(stream, { group })
        .handle(() => undefined)
        .runOnce()
    const [send] = tracing.spans(`send ${stream}`)
    const processed = ['one', 'two'].map((group) => tracing.spans(`process ${stream}:${group}`)[0])
    for (const span of processed) expect(span?.parentSpanContext).toMatchObject(contextOf(send))
    expect(processed[1]?.attributes).toMatchObject({
      'messaging.destination.name': stream,
      'messaging.consumer.group.name': 'two',
    })
    expect(database).toBeDefined()
  })

  test('is named by the events about a message that fails and dies', async ({ queue, tracing, traced, log }) => {
    await put(traced, queue, [1], { maxAttempts: 2 })
    const pipeline = traced.pipeline(queue, { retry: { kind: 'fixed', delay: 0 } }).handle(() => raise())
    await pipeline.runOnce()
    await pipeline.runOnce()
    const [send] = tracing.spans(`send ${queue}`)
    const { traceId } = contextOf(send)
    expect((await log.first('message.failed')).traceId).toBe(traceId)
    expect((await log.first('message.dead')).traceId).toBe(traceId)
  })

  test('leaves the headers of the caller as they are, and adds its own', async ({ queue, traced, tracing }) => {
    const big = { tenant: 'a', number: 1 }
    const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await put(traced, queue, [1], { headers: big })
    await put(traced, queue, [2], { headers: { traceparent: parent } })
    const seen: unknown[] = []
    await traced
      .pipeline(queue)
      .handle(({ headers }) => void seen.push(headers))
      .runOnce()
    const [send] = tracing.spans(`send ${queue}`)
    const { traceId, spanId } = contextOf(send)
    expect(seen).toEqual([{ ...big, traceparent: `00-${traceId}-${spanId}-01` }, { traceparent: parent }])
    expect(tracing.spans(`process ${queue}`)[1]?.parentSpanContext).toMatchObject({ spanId: 'b7ad6b7169203331' })
  })

  test.for(['', 'garbage', '00-00000000000000000000000000000000-b7ad6b7169203331-01', 7, { a: 1 }])(
    'begins with the handler where the message brings %j',
    async (traceparent, { sluice, queue, tracing, traced }) => {
      expect(sluice).toBe(traced)
      await put(traced, queue, [1], { headers: { traceparent } })
      await traced
        .pipeline(queue)
        .handle(() => undefined)
        .runOnce()
      expect(tracing.spans(`process ${queue}`)[0]?.parentSpanContext).toBeUndefined()
    },
  )

  test('has an enqueue that failed', async ({ queue, tracing, traced, database }) => {
    const client = new pg.Client(database.url)
    onTestFinished(() => client.end())
    await client.connect()
    await expect(traced.enqueue(client, queue, 1)).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    const [send] = tracing.spans(`send ${queue}`)
    expect(send?.status.code).toBe(SpanStatusCode.ERROR)
    expect(send?.attributes['error.type']).toBe('NOT_IN_TRANSACTION')
  })
})

test('without a provider of spans nothing is added to messages', async ({ sluice, queue, tracing }) => {
  const traced = instrument(sluice, { tracerProvider: false, meterProvider: tracing.providers.meterProvider })
  await put(traced, queue, [1])
  const [message] = await traced.operate.messages.peek(queue)
  expect(message?.headers).toEqual({})
})

test('without an SDK nothing is traced, and nothing is added to messages', async ({ sluice, queue }) => {
  const traced = instrument(sluice)
  await put(traced, queue, [1])
  const [message] = await traced.operate.messages.peek(queue)
  expect(message?.headers).toEqual({})
})

test('a tracer that throws disturbs no message', async ({ sluice, queue }) => {
  const broken = { getTracer: () => ({ startSpan: () => raise(), startActiveSpan: () => raise() }) }
  const traced = instrument(sluice, { tracerProvider: broken as never, meterProvider: false })
  await put(traced, queue, [1])
  const settled = await traced
    .pipeline(queue)
    .handle(() => undefined)
    .runOnce()
  expect(settled.counts.acked).toBe(1)
})

test('the metrics have what was sent, handled and settled, and how long it took', async ({
  queue,
  tracing,
  traced,
}) => {
  await put(traced, queue, ['ok', 'ok', 'bad'])
  await traced
    .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
    .handle(({ payload }) => (payload === 'bad' ? raise() : undefined))
    .runOnce()
  const metrics = await tracing.metrics()
  const of = (operation: string) => ({
    'messaging.system': 'sluice',
    'messaging.operation.name': operation,
    'messaging.destination.name': queue,
  })
  expect(metrics['messaging.client.sent.messages']).toEqual([{ attributes: of('send'), value: 3 }])
  expect(metrics['messaging.client.consumed.messages']).toEqual([{ attributes: of('process'), value: 3 }])
  const settled = metrics['sluice.messages.settled']?.map(({ attributes, value }) => [
    attributes['sluice.outcome'],
    value,
  ])
  expect(settled).toEqual([
    ['acked', 2],
    ['retried', 1],
    ['snoozed', 0],
    ['dead', 0],
  ])
  expect(metrics['messaging.process.duration']).toMatchObject([{ attributes: of('process'), value: { count: 3 } }])
  expect(metrics['sluice.message.wait']).toMatchObject([{ attributes: of('process'), value: { count: 3 } }])
  expect(metrics['sluice.batch.size']).toMatchObject([{ attributes: of('receive'), value: { count: 1, sum: 3 } }])
  const durations = metrics['messaging.client.operation.duration']?.map(({ attributes }) => attributes)
  expect(durations).toEqual([of('send'), of('receive')])
})

test('instrument refuses what is no Sluice, a second call and unknown options', ({ traced, tracing, database }) => {
  expect(() => instrument({} as never)).toThrow('sluice: expected what createSluice returned')
  expect(() => instrument(traced, tracing.providers)).toThrow('expected a Sluice without instruments')
  expect(() => instrument(startTestSluice(database), { jion: 'link' } as never)).toThrow('jion')
  expect(() => instrument(startTestSluice(database), { join: 'child' as never })).toThrow("expected 'parent' or 'link'")
})

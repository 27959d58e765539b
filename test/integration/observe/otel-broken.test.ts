import { describe, expect } from 'vitest'
import { instrument } from '../../../src/otel.ts'
import { BREAKS, type Break, brokenSdk, CONTEXT_BREAKS } from '../../support/broken-sdk.ts'
import { put, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

/** All that Sluice calls: a test below holds that the list is complete. */
const METHODS = [
  ...['getTracer', 'startSpan', 'spanContext', 'serialize', 'setAttribute', 'setStatus', 'recordException', 'end'],
  ...['getMeter', 'createHistogram', 'createObservableCounter', 'addCallback', 'record', 'active', 'with'],
]

const CASES: readonly (readonly [string, string, Break])[] = [
  ...METHODS.flatMap((method) => Object.entries(BREAKS).map(([what, how]) => [method, what, how] as const)),
  ...Object.entries(CONTEXT_BREAKS).map(([what, how]) => ['with', what, how] as const),
]

/** A message that succeeds, one whose handler throws, and one that another handler enqueues. */
async function work(traced: Parameters<typeof put>[0], queue: string) {
  const handled: unknown[] = []
  await put(traced, queue, ['good', 'bad'])
  const { counts } = await traced
    .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
    .handle(async ({ payload }, { enqueue }) => {
      handled.push(payload)
      if (payload === 'bad') raise()
      await enqueue(`${queue}.next`, 'next')
    })
    .runOnce()
  await traced
    .pipeline(`${queue}.next`, { mode: 'leased' })
    .handleBatch((messages) => void handled.push(...messages.map(({ payload }) => payload)))
    .runOnce()
  await traced
    .pipeline(`${queue}.next`)
    .handle(() => undefined)
    .runOnce()
  return { handled, counts }
}

const WELL = { handled: ['good', 'bad', 'next'], counts: { acked: 1, retried: 1, snoozed: 0, dead: 0 } }

describe('an SDK of OpenTelemetry disturbs no message', () => {
  test.for(CASES)('whose %s %s', async ([method, , how], { sluice, queue, log }) => {
    const sdk = brokenSdk(method, how)
    expect(await work(instrument(sluice, sdk.options), queue)).toMatchObject(WELL)
    expect(sdk.called).toContain(method)
    // What it returns instead may do no harm.
    expect(log.of('telemetry.failed').length).toBeLessThanOrEqual(1)
    if (how === BREAKS.throws)
      expect(log.of('telemetry.failed')).toMatchObject([{ error: new Error('failed on purpose') }])
  })

  test('that works, and calls nothing else of it', async ({ sluice, queue, log }) => {
    const sdk = brokenSdk('', () => undefined)
    expect(await work(instrument(sluice, sdk.options), queue)).toMatchObject(WELL)
    expect([...sdk.called].toSorted()).toEqual(METHODS.toSorted())
    expect(log.of('telemetry.failed')).toEqual([])
  })

  test.for([
    ['has a NUL', 'vendor=\0'],
    ['has half a character', 'vendor=\ud800'],
    ['is not ASCII', 'vendor=é'],
    ['is too long', `vendor=${'x'.repeat(600)}`],
    ['is a number', 7],
    ['is empty', ''],
  ] as const)('whose tracestate %s: messages get none', async ([, tracestate], { sluice, queue }) => {
    const traced = instrument(sluice, brokenSdk('', () => undefined, tracestate).options)
    await put(traced, queue, [1])
    const [message] = await traced.operate.messages.peek(queue)
    expect(message?.headers).toEqual({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
  })
})

test('a handler that throws fails with its own error, in a context that is broken too', async ({
  sluice,
  queue,
  log,
}) => {
  const sdk = brokenSdk('with', (go) => raise(go()))
  await work(instrument(sluice, sdk.options), queue)
  expect(log.of('message.failed')).toMatchObject([{ error: 'Error: failed on purpose' }])
})

test('instrument refuses providers that are none', ({ sluice }) => {
  expect(() => instrument(sluice, { tracerProvider: {} as never })).toThrow('instrument.tracerProvider: expected')
  expect(() => instrument(sluice, { meterProvider: true as never })).toThrow('instrument.meterProvider: expected')
})

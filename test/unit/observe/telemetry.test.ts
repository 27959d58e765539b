import { filter, firstValueFrom, map } from 'rxjs'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { createTelemetry } from '../../../src/telemetry/telemetry.ts'

const EVENT: SluiceEvent = { kind: 'pipeline.stopped', queue: 'q' }

describe('a subscriber of events that throws', () => {
  let warnings: Error[]

  beforeEach(() => {
    warnings = []
    const listener = (warning: Error) => warnings.push(warning)
    process.on('warning', listener)
    onTestFinished(() => void process.off('warning', listener))
  })

  test('is warned about once, goes on to be told, and disturbs nobody else', async () => {
    const { events, report } = createTelemetry(false, 'web-1')
    const seen: string[] = []
    const failing = (event: SluiceEvent) => {
      seen.push(event.kind)
      throw new Error('no log')
    }
    events.subscribe(failing)
    const others: string[] = []
    events.subscribe((event) => others.push(event.kind))
    report(EVENT)
    report(EVENT)
    await nothingUnhandled()
    expect(seen).toHaveLength(2)
    expect(others).toHaveLength(2)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatchObject({ name: 'SluiceWarning', message: expect.stringContaining('no log') })
  })

  test.for([
    ['as an observer', { next: () => fail() }],
    ['asynchronously', async () => fail()],
  ] as const)('%s is warned about', async ([, observer]) => {
    const { events, report } = createTelemetry(false, 'web-1')
    events.subscribe(observer)
    report(EVENT)
    await nothingUnhandled()
    expect(warnings).toHaveLength(1)
  })

  test('is warned about behind operators, and when an operator throws', async () => {
    const { events, report } = createTelemetry(false, 'web-1')
    events
      .pipe(
        filter(({ kind }) => kind === 'pipeline.stopped'),
        map(({ kind }) => kind),
      )
      .subscribe(() => fail())
    events.pipe(filter(() => fail())).subscribe()
    report(EVENT)
    await nothingUnhandled()
    expect(warnings).toHaveLength(2)
  })

  test('still gets its own error handler called, and its completion', async () => {
    const { events, report, close } = createTelemetry(false, 'web-1')
    const told: unknown[] = []
    const observer = { error: (error: unknown) => told.push(error), complete: () => told.push('complete') }
    events.pipe(map(() => fail())).subscribe(observer)
    events.subscribe(observer)
    const first = firstValueFrom(events)
    report(EVENT)
    close()
    expect(await first).toBe(EVENT)
    expect(told).toEqual([expect.objectContaining({ message: 'failed' }), 'complete'])
  })
})

test('a log that fails later disturbs nobody', async () => {
  const later = async () => fail()
  const { report } = createTelemetry({ info: later, warn: later, error: later }, 'web-1')
  report({ ...EVENT, error: new Error('no schema') })
  await nothingUnhandled()
})

test.for([
  ['whose message throws', Object.defineProperty(new Error(), 'message', { get: () => fail() })],
  ['whose message is no text', Object.assign(new Error(), { message: Object.create(null) as unknown })],
  ['whose cause throws', Object.defineProperty(new Error(), 'cause', { get: () => fail() })],
  ['whose cause is a proxy that throws', new Error('odd', { cause: new Proxy({}, { has: () => fail() }) })],
] as const)('an error %s is told to subscribers and to the log', ([, error]) => {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const { events, report } = createTelemetry({ info: write, warn: write, error: write }, 'web-1')
  const told: SluiceEvent[] = []
  events.subscribe((event) => told.push(event))
  report({ ...EVENT, error })
  expect(told).toHaveLength(1)
  expect(lines).toEqual(['sluice: q: the pipeline could not start: an error that cannot be read'])
})

function fail(): never {
  throw new Error('failed')
}

/** Long enough for what is thrown in a timer or a promise: then the test run fails by itself. */
async function nothingUnhandled(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setTimeout(resolve))
}

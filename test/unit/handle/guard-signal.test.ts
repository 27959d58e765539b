import { addAbortListener } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CallTime } from '../../../src/handle/call-time.ts'
import { raise } from '../../support/steps.ts'

describe('the signal of a handler', () => {
  let warnings: Error[]
  let time: CallTime

  beforeEach(() => {
    warnings = []
    time = new CallTime()
    const listener = (warning: Error) => warnings.push(warning)
    process.on('warning', listener)
    onTestFinished(() => void process.off('warning', listener))
  })

  // What is thrown in a tick or rejected fails the test run by itself.
  test.for([
    ['throws', () => raise()],
    ['rejects', async () => raise()],
    ['is an object whose method throws', { handleEvent: () => raise() }],
  ] as const)('warns of a listener that %s, and tells the others', async ([, listener]) => {
    const told: unknown[] = []
    time.signal.addEventListener('abort', listener)
    time.signal.addEventListener('abort', function (this: unknown, event) {
      told.push(this, event.type)
    })
    time.abort('late')
    await new Promise(setImmediate)
    expect(told[0] === time.signal).toBe(true)
    expect(told[1]).toBe('abort')
    expect(warnings).toMatchObject([
      { name: 'SluiceWarning', message: "A listener of a handler's signal failed. Error: failed on purpose" },
    ])
  })

  test('warns of an onabort that throws', async () => {
    time.signal.onabort = () => raise()
    time.abort('late')
    await new Promise(setImmediate)
    expect(warnings).toHaveLength(1)
  })

  test('is one for Node: a listener can be removed, and others wait for it', async () => {
    const told: string[] = []
    const { signal } = time
    const listener = () => told.push('removed')
    signal.addEventListener('abort', listener)
    signal.removeEventListener('abort', listener)
    addAbortListener(signal, () => told.push('added'))
    AbortSignal.any([signal]).addEventListener('abort', () => told.push('any'))
    const waiting = pause(3_600_000, undefined, { signal })
    const fetching = fetch('http://127.0.0.1:9', { signal })
    time.abort(new Error('late'))
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' })
    await expect(fetching).rejects.toThrow()
    expect(signal).toBeInstanceOf(AbortSignal)
    expect(signal.reason).toEqual(new Error('late'))
    expect(told).toEqual(['added', 'any'])
    expect(() => signal.addEventListener('abort', 7 as never)).toThrow(TypeError)
  })
})

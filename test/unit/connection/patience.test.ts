import { expect, test } from 'vitest'
import { Patience } from '../../../src/connection/patience.ts'
import { unreachable } from '../../../src/connection/unreachable.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'

test('who has left already begins no attempt', async () => {
  let attempts = 0
  const patience = new Patience(async () => void attempts++, fail)
  await expect(patience.wait(AbortSignal.abort(new Error('left')))).rejects.toThrow('left')
  patience.stop()
  await expect(patience.wait(new AbortController().signal)).rejects.toMatchObject({ code: 'STOPPED' })
  expect(attempts).toBe(0)
})

test('an attempt that fails when nobody waits any more is not told, and is the last', async () => {
  const events: SluiceEvent[] = []
  const attempts: PromiseWithResolvers<void>[] = []
  const attempt = async () => {
    const next = Promise.withResolvers<void>()
    attempts.push(next)
    await next.promise
  }
  const patience = new Patience(attempt, (event) => void events.push(event))
  const leaving = new AbortController()
  const left = patience.wait(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  attempts[0]?.reject(unreachable(Object.assign(new Error('nobody there'), { code: 'ECONNREFUSED' })))
  await new Promise(setImmediate)
  expect(events).toEqual([])
  const again = patience.wait(new AbortController().signal)
  expect(attempts).toHaveLength(2)
  attempts[1]?.resolve()
  await again
})

function fail(): never {
  throw new Error('expected no report')
}

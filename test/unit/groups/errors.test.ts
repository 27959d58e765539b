import { expect, test } from 'vitest'
import { toStreamError } from '../../../src/table/stream/stream-errors.ts'

const said = (code: string) => Object.assign(new Error('no such name, in whatever words'), { code })

test('an unknown stream or group is named in the remedy, also where a client has wrapped what the server said', () => {
  const unknown = said('SL030')
  for (const error of [unknown, new Error('Failed query: SELECT "x"', { cause: unknown })]) {
    expect(toStreamError(error, 'orders')).toMatchObject({
      code: 'STREAM_UNKNOWN',
      message:
        'stream: expected one that exists, received "orders". Make it with sluice.streams.set("orders"), or sluice stream set orders',
      cause: error,
    })
  }
  expect(toStreamError(said('SL032'), 'orders', 'bills')).toMatchObject({
    code: 'GROUP_UNKNOWN',
    message:
      'group: expected one of stream "orders", received "bills". Make it with sluice.groups.set("orders", "bills"), or sluice group set orders bills',
  })
})

test('another error stays as it is', () => {
  const other = said('23505')
  expect(toStreamError(other, 'orders')).toBe(other)
})

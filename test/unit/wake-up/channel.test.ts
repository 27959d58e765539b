import fc from 'fast-check'
import { expect, test } from 'vitest'
import { format, type Notification, parse } from '../../../src/wake-up/channel.ts'

const queue = fc.string({ minLength: 1 }).filter((name) => !name.startsWith('!'))
const notification = fc.oneof(
  fc.record({ kind: fc.constant('messages' as const), queue }),
  fc.record({ kind: fc.constant('lowered' as const), queue, workerId: fc.nat() }),
  fc.record({ kind: fc.constant('settings' as const), queue }),
  fc.record({ kind: fc.constant('cancelled' as const), queue }),
  fc.record({ kind: fc.constant('holds' as const), queue }),
  fc.record({ kind: fc.constant('self-test' as const), nonce: fc.uuid() }),
)

test('what is formatted for NOTIFY is parsed as it was', () => {
  fc.assert(
    fc.property(notification, (given: Notification) => {
      expect(parse(format(given))).toEqual(given)
    }),
  )
})

test('a payload of somebody else is read as a queue or a self-test that nobody waits for', () => {
  expect(parse('orders')).toEqual({ kind: 'messages', queue: 'orders' })
  expect(parse('!')).toEqual({ kind: 'self-test', nonce: '' })
  expect(parse('!x!orders')).toEqual({ kind: 'self-test', nonce: 'x!orders' })
  expect(parse('')).toEqual({ kind: 'messages', queue: '' })
})

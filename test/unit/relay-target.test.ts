import { expect, test } from 'vitest'
import type { OutgoingMessage } from '../../src/relay/destination.ts'
import { Target } from '../../src/relay/target.ts'

const outgoing = {} as OutgoingMessage
const subject = (target: string) => new Target('nats.subject', target, () => undefined)

test('an error names its target, also one whose letters are in other words of it', () => {
  expect(subject('a').named(outgoing, new Error('no stream matches subject'))).toBe(
    'subject "a": no stream matches subject',
  )
})

test('an error that names its target does not name it twice', () => {
  const words = 'no permission to publish to "a"'
  expect(subject('a').named(outgoing, new Error(words))).toBe(words)
})

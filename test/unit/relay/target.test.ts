import { expect, onTestFinished, test } from 'vitest'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { Target } from '../../../src/relay/target.ts'
import { raise } from '../../support/steps.ts'

const outgoing = {} as OutgoingMessage
const subject = (target: string) => new Target('nats.subject', target, () => undefined)

test('an error names its target, also one whose letters are in other words of it', () => {
  expect(subject('a').named(outgoing, new Error('no stream matches subject'))).toBe(
    'subject "a": no stream matches subject',
  )
})

test('a function that answers later is refused, and what it throws ends nothing', async () => {
  const unhandled: unknown[] = []
  const hear = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', hear)
  onTestFinished(() => void process.off('unhandledRejection', hear))
  const later = (async () => raise(new Error('no subject'))) as unknown as () => string
  const wanted = (target: unknown) => (typeof target === 'string' ? undefined : 'a subject')
  expect(new Target('nats.subject', later, wanted).refusalOf(outgoing)).toMatch(/^nats.subject: expected a subject/)
  await new Promise(setImmediate)
  expect(unhandled).toEqual([])
})

test('an error that names its target does not name it twice', () => {
  const words = 'no permission to publish to "a"'
  expect(subject('a').named(outgoing, new Error(words))).toBe(words)
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import { PublishCall } from '../../../src/relay/publish-call.ts'

const KINDS = ['confirmed', 'confirmed', 'confirmed', 'refused', 'failed', 'unavailable'] as const
type Kind = (typeof KINDS)[number]

const sent = fc.record({ key: fc.constantFrom(null, 'a', 'b', 'c'), kind: fc.constantFrom<Kind>(...KINDS) })
const BEHIND = { kind: 'unavailable', error: 'the message before it of its key was not stored' }

test('whatever comes back, and in whatever order, a message is sent when the one before it of its key has ended well or is refused', async () => {
  const batches = fc.array(sent, { maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(batches, fc.infiniteStream(fc.nat()), async (batch, choices) => {
      const messages = batch.map(({ key }, n) => outgoing(key, n))
      const kindOf = (one: OutgoingMessage): Kind => batch[Number(one.id)]?.kind ?? 'confirmed'
      const order: OutgoingMessage[] = []
      const underway: (readonly [OutgoingMessage, (verdict: Verdict) => void])[] = []
      const call = new PublishCall(messages, (one, answered) => {
        order.push(one)
        underway.push([one, answered])
      })
      // At once, but for what waits behind another of its key.
      expect(order).toEqual(firstOfEachKey(messages))
      while (underway.length > 0) {
        const keys = underway.flatMap(([{ message }]) => message.orderingKey ?? [])
        expect(new Set(keys).size).toBe(keys.length)
        const [[one, answered]] = underway.splice((choices.next().value ?? 0) % underway.length, 1) as [
          (typeof underway)[number],
        ]
        answered({ kind: kindOf(one), error: '' })
      }
      const verdicts = await call.verdicts
      for (const [at, one] of messages.entries())
        expect(verdicts[at]).toEqual(order.includes(one) ? { kind: kindOf(one), error: '' } : BEHIND)
      for (const key of ['a', 'b', 'c']) {
        const ofKey = messages.filter(({ message }) => message.orderingKey === key)
        const ended = ofKey.findIndex((one) => ['failed', 'unavailable'].includes(kindOf(one)))
        const gone = ofKey.slice(0, ended === -1 ? ofKey.length : ended + 1)
        expect(order.filter(({ message }) => message.orderingKey === key)).toEqual(gone)
      }
    }),
  )
})

test('a verdict that comes at once counts, and one that comes after the end does not and sends nothing', async () => {
  const messages = ['a', 'a', 'a', null].map(outgoing)
  const atOnce = new PublishCall(messages, (_, answered) => answered({ kind: 'confirmed' }))
  expect((await atOnce.verdicts).map(({ kind }) => kind)).toEqual(messages.map(() => 'confirmed'))
  const answers: ((verdict: Verdict) => void)[] = []
  const cut = new PublishCall(messages, (_, answered) => void answers.push(answered))
  answers[1]?.({ kind: 'confirmed' })
  cut.end({ kind: 'unavailable', error: 'late' })
  answers[0]?.({ kind: 'confirmed' })
  expect((await cut.verdicts).map(({ kind }) => kind)).toEqual([
    'unavailable',
    'unavailable',
    'unavailable',
    'confirmed',
  ])
  expect(answers).toHaveLength(2)
})

test('a call without messages has its verdicts at once', async () => {
  const { verdicts } = new PublishCall([], () => undefined)
  expect(await Promise.race([verdicts, Promise.resolve('nothing')])).toEqual([])
})

function firstOfEachKey(messages: readonly OutgoingMessage[]): readonly OutgoingMessage[] {
  const keys = new Set<string>()
  return messages.filter(({ message: { orderingKey } }) => {
    const isFirst = orderingKey === null || !keys.has(orderingKey)
    if (orderingKey !== null) keys.add(orderingKey)
    return isFirst
  })
}

function outgoing(key: string | null, n: number): OutgoingMessage {
  const message = { id: String(n), orderingKey: key } as OutgoingMessage['message']
  return { id: String(n), source: '', body: new Uint8Array(1), headers: {}, message }
}

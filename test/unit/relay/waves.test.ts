import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from '../../../src/relay/destination.ts'
import { publishBatch } from '../../../src/relay/publish-batch.ts'

const KINDS = ['confirmed', 'confirmed', 'confirmed', 'refused', 'failed', 'unavailable'] as const
type Kind = (typeof KINDS)[number]

/** A message with a key, or none, and what the destination will say to it. */
const sent = fc.record({
  key: fc.constantFrom(null, 'a', 'b', 'c'),
  kind: fc.constantFrom<Kind>(...KINDS),
  bytes: fc.integer({ min: 1, max: 40 }),
})
type Sent = { readonly key: string | null; readonly kind: Kind; readonly bytes: number }

test('whatever the verdicts are, a message goes after the end of the one before it of its key, and within the bytes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(sent, { maxLength: 30 }), fc.integer({ min: 1, max: 100 }), async (batch, mostBytes) => {
      const messages = batch.map((one, n) => outgoing(one, n))
      const calls: OutgoingMessage[][] = []
      const kindOf = (one: OutgoingMessage) => batch[messages.indexOf(one)]?.kind ?? 'confirmed'
      const connection = answering(calls, (one) => ({ kind: kindOf(one), error: '' }))
      const verdicts = await publishBatch(
        connection,
        messages,
        { keepsOrder: false, mostBytes },
        new AbortController().signal,
      )
      // Each call had an answer before the next: of a key it has one message, and all before that one have ended.
      for (const call of calls) {
        const keys = call.flatMap(({ message }) => message.orderingKey ?? [])
        expect(new Set(keys).size).toBe(keys.length)
        const bytes = call.reduce((sum, { body }) => sum + body.byteLength, 0)
        expect(call.length === 1 || bytes <= mostBytes).toBe(true)
      }
      const order = calls.flat()
      for (const key of ['a', 'b', 'c']) {
        const ofKey = messages.filter(({ message }) => message.orderingKey === key)
        const gone = order.filter(({ message }) => message.orderingKey === key)
        expect(gone).toEqual(ofKey.slice(0, gone.length))
        expect(
          gone
            .slice(0, -1)
            .map(kindOf)
            .every((kind) => kind === 'confirmed' || kind === 'refused'),
        ).toBe(true)
      }
      // What was sent has its verdict, and nothing else has one.
      expect(new Set(verdicts.keys())).toEqual(new Set(order))
      if (!batch.some(({ kind }) => kind === 'unavailable' || kind === 'failed'))
        expect(order.length).toBe(batch.length)
    }),
  )
})

test('an adapter that throws, or gives too few verdicts, has said nothing about its messages', async () => {
  const messages = [outgoing({ key: null, kind: 'confirmed', bytes: 1 }, 1)]
  const never = new AbortController().signal
  const thrower = {
    ...answering([], () => ({ kind: 'confirmed' })),
    publish: () => {
      throw new Error('a bug')
    },
  }
  const refuser = { ...thrower, publish: () => Promise.reject(new SluiceError('OPTION_INVALID', 'no permission')) }
  const mute = { ...thrower, publish: async () => [] }
  for (const [connection, said] of [
    [thrower, { error: 'a bug', cause: 'outage' }],
    [refuser, { error: 'no permission', cause: 'settings' }],
    [mute, { error: 'expected one verdict for each message' }],
  ] as const) {
    const verdicts = await publishBatch(connection, messages, { keepsOrder: false, mostBytes: 100 }, never)
    expect([...verdicts.values()]).toEqual([{ kind: 'unavailable', ...said }])
  }
})

test('what is no verdict says nothing about its message, and an error in place of text becomes text', async () => {
  const messages = Array.from({ length: 6 }, (_, n) => outgoing({ key: null, kind: 'confirmed', bytes: 1 }, n))
  const never = new AbortController().signal
  const answersOf = async (given: unknown) => {
    const connection = { ...answering([], () => ({ kind: 'confirmed' })), publish: async () => given as Verdict[] }
    const verdicts = await publishBatch(connection, messages, { keepsOrder: false, mostBytes: 100 }, never)
    return [...verdicts.values()]
  }
  const nothing = { kind: 'unavailable', error: 'expected one verdict for each message' }
  for (const given of [undefined, null, 'confirmed', {}, [], { length: 6 }])
    expect(await answersOf(given)).toEqual(messages.map(() => nothing))
  const error = new Error('too large')
  const mixed = [{ kind: 'confirmed' }, undefined, 'confirmed', { kind: 'stored' }, { kind: 'refused', error }]
  expect(await answersOf([...mixed, { kind: 'failed' }])).toEqual([
    { kind: 'confirmed' },
    nothing,
    nothing,
    nothing,
    { kind: 'refused', error: 'Error: too large' },
    { kind: 'failed', error: 'undefined' },
  ])
})

function answering(calls: OutgoingMessage[][], answer: (one: OutgoingMessage) => Verdict): DestinationConnection {
  return {
    check: () => undefined,
    publish: async (messages) => {
      calls.push([...messages])
      return messages.map(answer)
    },
    close: async () => undefined,
  }
}

function outgoing({ key, bytes }: Sent, n: number): OutgoingMessage {
  const message = { id: String(n), orderingKey: key } as OutgoingMessage['message']
  return { id: String(n), source: '', body: new Uint8Array(bytes), headers: {}, message }
}

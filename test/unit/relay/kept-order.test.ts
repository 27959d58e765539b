import fc from 'fast-check'
import { expect, test } from 'vitest'
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

test('a destination that keeps the order of a key has all messages in one call, and what stays behind has no verdict', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(sent, { maxLength: 30 }), fc.integer({ min: 1, max: 200 }), async (batch, mostBytes) => {
      const messages = batch.map(outgoing)
      const kindOf = (one: OutgoingMessage) => batch[messages.indexOf(one)]?.kind ?? 'confirmed'
      const destination = new OrderedDestination(kindOf)
      const terms = { keepsOrder: true, mostBytes }
      const verdicts = await publishBatch(destination, messages, terms, new AbortController().signal)
      const bytes = messages.reduce((sum, { body }) => sum + body.byteLength, 0)
      if (bytes <= mostBytes) expect(destination.calls).toBe(Math.min(1, messages.length))
      // What was stored, or asked for and not, has its verdict, and nothing that waits behind it.
      expect(new Set(verdicts.keys())).toEqual(new Set(destination.judged))
      for (const [one, { kind }] of verdicts) expect(kind).toBe(kindOf(one))
      for (const key of ['a', 'b', 'c']) {
        const ofKey = messages.filter(({ message }) => message.orderingKey === key)
        const stored = destination.stored.filter(({ message }) => message.orderingKey === key)
        // In another call, behind a refused one the next may be stored.
        const storable = ofKey.filter((one) => kindOf(one) !== 'refused')
        expect(stored).toEqual(storable.slice(0, stored.length))
      }
      if (batch.every(({ kind }) => kind === 'confirmed')) expect(destination.stored).toEqual(messages)
    }),
  )
})

test('behind a refused message of its key what such a destination has stored counts, and what it has not stays as it was', async () => {
  const kinds = ['confirmed', 'refused', 'confirmed', 'unavailable', 'confirmed'] as const
  const messages = kinds.map((kind, n) => outgoing({ key: 'a', kind, bytes: 1 }, n))
  const connection: DestinationConnection = {
    check: () => undefined,
    publish: async () => kinds.map((kind) => ({ kind, error: '' })),
    close: async () => undefined,
  }
  const terms = { keepsOrder: true, mostBytes: 100 }
  const verdicts = await publishBatch(connection, messages, terms, new AbortController().signal)
  expect([...verdicts.values()].map(({ kind }) => kind)).toEqual(['confirmed', 'refused', 'confirmed'])
})

/** Stores the messages of a call in their order, and of a key none behind one that was not stored. */
class OrderedDestination implements DestinationConnection {
  calls = 0
  readonly stored: OutgoingMessage[] = []
  /** Those that were not behind another. */
  readonly judged: OutgoingMessage[] = []
  readonly #kindOf: (one: OutgoingMessage) => Kind

  constructor(kindOf: (one: OutgoingMessage) => Kind) {
    this.#kindOf = kindOf
  }

  check(): undefined {
    return undefined
  }

  async publish(messages: readonly OutgoingMessage[]): Promise<readonly Verdict[]> {
    this.calls += 1
    const held = new Set<string>()
    return messages.map((one) => {
      const key = one.message.orderingKey ?? one.id
      if (held.has(key)) return { kind: 'unavailable', error: 'behind' }
      this.judged.push(one)
      const kind = this.#kindOf(one)
      if (kind === 'confirmed') this.stored.push(one)
      else held.add(key)
      return { kind, error: '' }
    })
  }

  async close(): Promise<void> {}
}

function outgoing({ key, bytes }: Sent, n: number): OutgoingMessage {
  const message = { id: String(n), orderingKey: key } as OutgoingMessage['message']
  return { id: String(n), source: '', body: new Uint8Array(bytes), headers: {}, message }
}

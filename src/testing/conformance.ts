import assert from 'node:assert/strict'

import type { Message } from '../message.ts'
import type { Destination, DestinationConnection, OutgoingMessage } from '../relay/destination.ts'

/** A destination that is tried, at a place where nothing else is stored. */
export interface ConformanceSubject {
  readonly to: Destination
  /** What is stored there now, in the order in which a consumer gets it. */
  stored(): Promise<readonly PublishedMessage[]>
  /** Makes the destination unreachable, and returns what undoes that. */
  cutOff(): Promise<() => Promise<void>>
  /** Changes a message so that the destination refuses it, or fails to store it, once it is sent. */
  spoil(message: OutgoingMessage): OutgoingMessage
}

/** A message as a consumer of the destination gets it. */
export interface PublishedMessage {
  readonly id: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** One case of the suite. It throws an AssertionError, or what the destination throws. */
export interface ConformanceCase {
  readonly name: string
  readonly run: (subject: ConformanceSubject) => Promise<void>
}

/**
 * What every destination must do, as cases for any test runner. Give each a subject of its own.
 *
 * @example for (const { name, run } of conformance) test(name, async () => run(await newSubject()))
 */
export const conformance: readonly ConformanceCase[] = [
  { name: 'what it confirms is stored with its id, its body and its headers', run: storesAll },
  { name: 'the messages of one call are stored in their order', run: storesInOrder },
  { name: 'each message of a call has its own verdict, in their order', run: judgesEach },
  {
    name: 'if it keeps the order of a key, nothing is stored behind a message of the key that was not',
    run: keepsOrder,
  },
  { name: 'a message that was stored before is confirmed again', run: confirmsAgain },
  { name: 'when the signal aborts, it returns a verdict for each message', run: returnsAtOnce },
  { name: 'when the signal aborts during a call, it returns a verdict for each message', run: returnsWhenAborted },
  { name: 'two calls side by side have their own verdicts', run: judgesSideBySide },
  { name: 'a call during which the connection is closed has a verdict for each message', run: endsWithConnection },
  { name: 'out of reach, it says so of each message, and a connection cannot be had', run: tellsUnavailable },
  { name: 'a connection may be closed twice, and stores nothing more', run: closesTwice },
]

async function storesAll(subject: ConformanceSubject): Promise<void> {
  const messages = BODIES.map((body, n) => outgoing(n, body, { text: `h ${n} \u{1f30a}`, traceparent: TRACE }))
  const verdicts = await publish(subject, messages)
  assert.deepEqual(
    verdicts,
    messages.map(() => 'confirmed'),
  )
  const stored = await subject.stored()
  assert.deepEqual(
    stored.map(({ id, body }) => ({ id, body })),
    messages.map(({ id, body }) => ({ id, body: new TextDecoder().decode(body) })),
  )
  for (const [at, { headers }] of messages.entries())
    for (const [name, value] of Object.entries(headers)) assert.equal(stored[at]?.headers[name], value, name)
}

async function storesInOrder(subject: ConformanceSubject): Promise<void> {
  const messages = Array.from({ length: 200 }, (_, n) => outgoing(n))
  await publish(subject, messages)
  const stored = await subject.stored()
  assert.deepEqual(
    stored.map(({ id }) => id),
    messages.map(({ id }) => id),
  )
}

async function judgesEach(subject: ConformanceSubject): Promise<void> {
  const verdicts = await publish(subject, [outgoing(1), subject.spoil(outgoing(2)), outgoing(3)])
  const [first, second, third] = verdicts
  assert.deepEqual([first, third], ['confirmed', 'confirmed'])
  assert.ok(second === 'refused' || second === 'failed', `expected refused or failed, received ${second}`)
  const stored = await subject.stored()
  assert.deepEqual(
    stored.map(({ id }) => id),
    [outgoing(1).id, outgoing(3).id],
  )
}

/** Only for a destination that says so. */
async function keepsOrder(subject: ConformanceSubject): Promise<void> {
  if (subject.to.keepsOrder !== true) return
  const keyed = (n: number, orderingKey: string) => withKey(outgoing(n), orderingKey)
  const spoilt = subject.spoil(keyed(2, 'a'))
  const sent = [outgoing(0), keyed(1, 'a'), spoilt, keyed(3, 'a'), keyed(4, 'b'), keyed(5, 'a'), keyed(6, 'b')]
  const [without, first, second, after, other, last, otherLast] = await publish(subject, sent)
  assert.deepEqual([without, first, other, otherLast], ['confirmed', 'confirmed', 'confirmed', 'confirmed'])
  assert.ok(second === 'refused' || second === 'failed', `expected refused or failed, received ${second}`)
  // Behind one that can never be stored the others of its key may be.
  const goesOn = second === 'refused' && after === 'confirmed'
  assert.deepEqual([after, last], goesOn ? ['confirmed', 'confirmed'] : ['unavailable', 'unavailable'])
  const stored = (await subject.stored()).map(({ id }) => id)
  const ofKeys = [[0], goesOn ? [1, 3, 5] : [1], [4, 6]].map((numbers) => numbers.map((n) => outgoing(n).id))
  for (const ids of ofKeys)
    assert.deepEqual(
      stored.filter((id) => ids.includes(id)),
      ids,
    )
  assert.equal(stored.length, ofKeys.flat().length)
}

async function confirmsAgain(subject: ConformanceSubject): Promise<void> {
  await publish(subject, [outgoing(1)])
  assert.deepEqual(await publish(subject, [outgoing(1), outgoing(2)]), ['confirmed', 'confirmed'])
  const stored = await subject.stored()
  assert.deepEqual(new Set(stored.map(({ id }) => id)), new Set([outgoing(1).id, outgoing(2).id]))
}

async function returnsAtOnce({ to }: ConformanceSubject): Promise<void> {
  const connection = await to.open(NEVER)
  try {
    const verdicts = await connection.publish([outgoing(1), outgoing(2)], AbortSignal.abort())
    assert.equal(verdicts.length, 2)
    for (const { kind } of verdicts) assert.ok(kind === 'unavailable' || kind === 'confirmed', kind)
  } finally {
    await connection.close()
  }
}

async function returnsWhenAborted(subject: ConformanceSubject): Promise<void> {
  const leaving = new AbortController()
  await interrupted(subject, leaving.signal, async () => leaving.abort())
}

async function endsWithConnection(subject: ConformanceSubject): Promise<void> {
  await interrupted(subject, AbortSignal.timeout(LONG_MS), (connection) => connection.close())
}

/** What has been confirmed by then is stored, and of the rest nothing is known. */
async function interrupted(
  subject: ConformanceSubject,
  signal: AbortSignal,
  interrupt: (connection: DestinationConnection) => Promise<void>,
): Promise<void> {
  const connection = await subject.to.open(NEVER)
  const messages = Array.from({ length: 20 }, (_, n) => outgoing(n))
  try {
    const publishing = connection.publish(messages, signal)
    const [verdicts] = await Promise.all([publishing, interrupt(connection)])
    assert.equal(verdicts.length, messages.length)
    for (const { kind } of verdicts) assert.ok(kind === 'unavailable' || kind === 'confirmed', kind)
    const stored = new Set((await subject.stored()).map(({ id }) => id))
    for (const [at, { id }] of messages.entries()) assert.ok(verdicts[at]?.kind !== 'confirmed' || stored.has(id), id)
  } finally {
    await connection.close()
  }
}

async function judgesSideBySide(subject: ConformanceSubject): Promise<void> {
  const connection = await subject.to.open(NEVER)
  const publishing = (messages: readonly OutgoingMessage[]) => connection.publish(messages, AbortSignal.timeout(60_000))
  const good = Array.from({ length: 50 }, (_, n) => outgoing(n))
  const mixed = [outgoing(100), subject.spoil(outgoing(101)), outgoing(102)]
  try {
    const [ofGood, ofMixed] = await Promise.all([publishing(good), publishing(mixed)])
    assert.deepEqual(
      kindsOf(ofGood),
      good.map(() => 'confirmed'),
    )
    const [first, second, third] = kindsOf(ofMixed)
    assert.deepEqual([first, third], ['confirmed', 'confirmed'])
    assert.ok(second === 'refused' || second === 'failed', `expected refused or failed, received ${second}`)
  } finally {
    await connection.close()
  }
  const stored = new Set((await subject.stored()).map(({ id }) => id))
  assert.deepEqual(stored, new Set([...good, outgoing(100), outgoing(102)].map(({ id }) => id)))
}

async function tellsUnavailable(subject: ConformanceSubject): Promise<void> {
  const connection = await subject.to.open(NEVER)
  const restore = await subject.cutOff()
  try {
    const verdicts = await connection.publish([outgoing(1), outgoing(2)], AbortSignal.timeout(LONG_MS))
    assert.deepEqual(kindsOf(verdicts), ['unavailable', 'unavailable'])
    await assert.rejects(subject.to.open(AbortSignal.timeout(LONG_MS)))
  } finally {
    await connection.close()
    await restore()
  }
  assert.deepEqual(await publish(subject, [outgoing(3)]), ['confirmed'])
}

async function closesTwice(subject: ConformanceSubject): Promise<void> {
  const { to } = subject
  const connection = await to.open(NEVER)
  await connection.close()
  await connection.close()
  const verdicts = await connection.publish([outgoing(1)], AbortSignal.timeout(LONG_MS))
  assert.deepEqual(kindsOf(verdicts), ['unavailable'])
  assert.deepEqual(await subject.stored(), [])
}

/** What became of messages, on a connection of their own. */
async function publish({ to }: ConformanceSubject, messages: readonly OutgoingMessage[]): Promise<readonly string[]> {
  const connection = await to.open(NEVER)
  try {
    for (const message of messages) assert.equal(connection.check(message), undefined)
    return kindsOf(await connection.publish(messages, AbortSignal.timeout(60_000)))
  } finally {
    await connection.close()
  }
}

function kindsOf(verdicts: Awaited<ReturnType<DestinationConnection['publish']>>): readonly string[] {
  return verdicts.map(({ kind }) => kind)
}

function outgoing(n: number, body = JSON.stringify({ n }), headers: Record<string, string> = {}): OutgoingMessage {
  const id = String(n + 1)
  return {
    id: `${SOURCE}/${id}`,
    source: SOURCE,
    body: new TextEncoder().encode(body),
    headers: { ...headers, 'sluice-message-id': id },
    message: { ...MESSAGE, id, payload: JSON.parse(body) as unknown, headers },
  }
}

function withKey(sent: OutgoingMessage, orderingKey: string): OutgoingMessage {
  return { ...sent, message: { ...sent.message, orderingKey } }
}

const MESSAGE: Omit<Message, 'id' | 'payload' | 'headers'> = {
  queue: 'conformance',
  stream: null,
  position: null,
  type: 'order.placed',
  schemaVersion: 1,
  orderingKey: null,
  priority: 5,
  attempt: 1,
  maxAttempts: null,
  tenant: null,
  dedupeKey: null,
  enqueuedAt: new Date(0),
  dueAt: new Date(0),
  expiresAt: null,
}

const SOURCE = '3f0c1f6e-6a0b-4b7e-9d6c-0a1b2c3d4e5f'
const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const BODIES = ['""', 'null', '{"text": "\u{1f30a} \\u0000 \\r\\n"}', JSON.stringify('x'.repeat(8_192))]
const NEVER = new AbortController().signal
const LONG_MS = 5_000

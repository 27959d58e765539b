import assert from 'node:assert/strict'
import type { ReceivedMessage, Receiver, ReceiverConnection } from '../inbox/receiver.ts'

/** A receiver that is tried, at a place where nothing has been published. */
export interface ReceiverSubject {
  readonly from: Receiver
  /** Publishes messages where the receiver finds them, in this order. */
  publish(messages: readonly MessageToPublish[]): Promise<void>
  /** Makes the broker unreachable, and returns what undoes that. */
  cutOff(): Promise<() => Promise<void>>
}

/** A message for a consumer of the broker. */
export interface MessageToPublish {
  readonly id: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** One case of the suite. It throws an AssertionError, or what the receiver throws. */
export interface ReceiverCase {
  readonly name: string
  readonly run: (subject: ReceiverSubject) => Promise<void>
}

/**
 * What every receiver of an inbox must do, as cases for any test runner. Give each a subject of its own.
 *
 * @example for (const { name, run } of receiverConformance) test(name, async () => run(await newSubject()))
 */
export const receiverConformance: readonly ReceiverCase[] = [
  { name: 'messages come with their id, their body and their headers', run: bringsAll },
  { name: 'messages come in their order, and no more than are asked for', run: keepsOrder },
  { name: 'it waits for the first message, and not for more', run: waitsForOne },
  { name: 'what has been acked does not come again', run: forgetsAcked },
  { name: 'what has not been acked comes again, before later messages and in its order', run: repeats },
  { name: 'when the signal aborts, it returns at once', run: returnsAtOnce },
  {
    name: 'out of reach, acks fail, it receives nothing, and a connection cannot be had; then nothing is missing',
    run: tellsUnavailable,
  },
  { name: 'a connection may be closed twice, and receives nothing more', run: closesTwice },
  { name: 'a connection that is closed while it receives takes nothing with it', run: closesInBetween },
]

async function bringsAll(subject: ReceiverSubject): Promise<void> {
  const messages = BODIES.map((body, n) => message(n, body, { text: `h ${n} \u{1f30a}`, traceparent: TRACE }))
  await subject.publish(messages)
  await connected(subject, async (connection) => {
    const received = await take(connection, messages.length)
    assert.deepEqual(
      received.map(({ id, body }) => ({ id, body: new TextDecoder().decode(body) })),
      messages.map(({ id, body }) => ({ id, body })),
    )
    for (const [at, { headers }] of messages.entries())
      for (const [name, value] of Object.entries(headers)) assert.equal(received[at]?.headers[name], value, name)
  })
}

async function keepsOrder(subject: ReceiverSubject): Promise<void> {
  await subject.publish(numbered(0, 200))
  await connected(subject, async (connection) => {
    const ids: (string | undefined)[] = []
    while (ids.length < 200) {
      const received = await connection.receive(30, soon())
      assert.ok(received.length > 0 && received.length <= 30, `expected 1 to 30 messages, received ${received.length}`)
      ids.push(...idsOf(received))
      await connection.ack(received)
    }
    assert.deepEqual(ids, idsOf(numbered(0, 200)))
  })
}

async function waitsForOne(subject: ReceiverSubject): Promise<void> {
  await connected(subject, async (connection) => {
    const waiting = connection.receive(10, soon())
    await subject.publish(numbered(0, 1))
    assert.deepEqual(idsOf(await waiting), idsOf(numbered(0, 1)))
  })
}

async function forgetsAcked(subject: ReceiverSubject): Promise<void> {
  await subject.publish(numbered(0, 3))
  await connected(subject, async (connection) => {
    for (let acked = 0; acked < 3; ) {
      const received = await connection.receive(10, soon())
      await connection.ack(received)
      acked += received.length
    }
  })
  await subject.publish(numbered(3, 1))
  await connected(subject, async (connection) => {
    assert.deepEqual(idsOf(await connection.receive(10, soon())), idsOf(numbered(3, 1)))
  })
}

async function repeats(subject: ReceiverSubject): Promise<void> {
  await subject.publish(numbered(0, 4))
  await connected(subject, async (connection) => void (await take(connection, 2, 2)))
  await subject.publish(numbered(4, 1))
  await connected(subject, async (connection) => {
    assert.deepEqual(idsOf(await take(connection, 5)), idsOf(numbered(0, 5)))
  })
}

async function returnsAtOnce(subject: ReceiverSubject): Promise<void> {
  await connected(subject, async (connection) => {
    const leaving = new AbortController()
    const waiting = connection.receive(10, leaving.signal)
    leaving.abort()
    assert.deepEqual(await waiting, [])
  })
}

async function tellsUnavailable(subject: ReceiverSubject): Promise<void> {
  await subject.publish(numbered(0, 1))
  const connection = await subject.from.open(soon())
  const received = await connection.receive(10, soon())
  const restore = await subject.cutOff()
  try {
    await assert.rejects(connection.ack(received))
    await assert.rejects(connection.receive(10, soon()))
    await assert.rejects(subject.from.open(AbortSignal.timeout(5_000)))
  } finally {
    await connection.close()
    await restore()
  }
  await subject.publish(numbered(1, 1))
  await connected(subject, async (next) => assert.deepEqual(idsOf(await take(next, 2)), idsOf(numbered(0, 2))))
}

async function closesTwice(subject: ReceiverSubject): Promise<void> {
  await subject.publish(numbered(0, 1))
  const connection = await subject.from.open(soon())
  await connection.close()
  await connection.close()
  await assert.rejects(connection.receive(10, soon()))
}

async function closesInBetween(subject: ReceiverSubject): Promise<void> {
  const connection = await subject.from.open(soon())
  const waiting = connection.receive(10, soon()).then(
    (received) => received.length,
    () => 0,
  )
  await connection.close()
  assert.equal(await waiting, 0)
  await subject.publish(numbered(0, 1))
  await connected(subject, async (next) => {
    assert.deepEqual(idsOf(await next.receive(10, soon())), idsOf(numbered(0, 1)))
  })
}

async function connected(
  { from }: ReceiverSubject,
  work: (connection: ReceiverConnection) => Promise<void>,
): Promise<void> {
  const connection = await from.open(soon())
  try {
    await work(connection)
  } finally {
    await connection.close()
  }
}

/** Receives so many messages, and acks none. */
async function take(connection: ReceiverConnection, count: number, most = 100): Promise<readonly ReceivedMessage[]> {
  const received: ReceivedMessage[] = []
  while (received.length < count) {
    const more = await connection.receive(Math.min(most, count - received.length), soon())
    assert.ok(more.length > 0, `expected ${count} messages, received ${received.length}`)
    received.push(...more)
  }
  return received
}

function idsOf(messages: readonly { readonly id: string | undefined }[]): readonly (string | undefined)[] {
  return messages.map(({ id }) => id)
}

function numbered(first: number, count: number): readonly MessageToPublish[] {
  return Array.from({ length: count }, (_, at) => message(first + at))
}

function message(n: number, body = JSON.stringify({ n }), headers: Record<string, string> = {}): MessageToPublish {
  return { id: `${SOURCE}/${n + 1}`, body, headers: { ...headers, 'sluice-message-id': String(n + 1) } }
}

/** Longer than a broker keeps what a lost connection had, and than a busy machine takes. */
const soon = () => AbortSignal.timeout(60_000)
const SOURCE = '3f0c1f6e-6a0b-4b7e-9d6c-0a1b2c3d4e5f'
const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const BODIES = ['""', 'null', '{"text": "\u{1f30a} \\r\\n"}', 'no JSON', JSON.stringify('x'.repeat(8_192))]

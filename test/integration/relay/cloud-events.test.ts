import { describe, expect } from 'vitest'
import { nats } from '../../../src/nats/nats.ts'
import type { OutgoingMessage } from '../../../src/relay/destination.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { startNats, storedIn } from '../../support/servers/nats.ts'
import { put } from '../../support/sluice.ts'
import { test as base } from '../../support/streams.ts'

const test = base.extend('to', () => new MemoryDestination()).extend('broker', ({ skip }) => startNats(skip))

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const KEYED = {
  type: 'order.placed',
  orderingKey: 'grüße "7"',
  headers: { traceparent: TRACEPARENT, tracestate: 'a=b', priority: 3 },
}
const BINARY = { format: 'cloudevents-binary' } as const
const STRUCTURED = { format: 'cloudevents-structured' } as const

const bodyOf = (message: OutgoingMessage | undefined) => new TextDecoder().decode(message?.body)

/** The attributes among headers, by their names, as a consumer decodes them. */
function attributesIn(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  const attributes = Object.entries(headers).filter(([name]) => name.startsWith('ce-'))
  return Object.fromEntries(attributes.map(([name, value]) => [name.slice(3), decodeURIComponent(value)]))
}

/** What the specification of CloudEvents 1.0 asks of every event. */
function expectValid(attributes: Readonly<Record<string, unknown>>): void {
  expect(Object.keys(attributes)).toEqual(expect.arrayContaining(['id', 'source', 'specversion', 'type']))
  for (const [name, value] of Object.entries(attributes)) {
    expect(name).toMatch(/^[a-z0-9]{1,20}$/)
    expect(value).toEqual(expect.stringMatching(/^\P{Cc}+$/u))
  }
  expect(attributes.specversion).toBe('1.0')
  expect(URL.canParse(String(attributes.source))).toBe(true)
  expect(attributes.time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
}

describe('a relay of CloudEvents', () => {
  test('publishes the payload with the attributes as headers, or a whole event in JSON', async ({
    sluice,
    queue,
    to,
  }) => {
    const payload = { total: 12, text: 'é' }
    const [id] = await put(sluice, queue, [payload], KEYED)
    await sluice.relay(queue, { to, ...BINARY }).runOnce()
    await put(sluice, queue, [payload], KEYED)
    await sluice.relay(queue, { to, ...STRUCTURED }).runOnce()
    const [binary, structured] = to.stored
    const attributes = attributesIn(binary?.headers)
    expect(JSON.parse(bodyOf(binary))).toEqual(payload)
    expectValid(attributes)
    expect(attributes).toEqual({
      specversion: '1.0',
      id: `${binary?.source}/${id}`,
      source: `urn:uuid:${binary?.source}`,
      type: 'order.placed',
      time: binary?.message.enqueuedAt.toISOString(),
      datacontenttype: 'application/json',
      subject: KEYED.orderingKey,
      partitionkey: KEYED.orderingKey,
      traceparent: TRACEPARENT,
      tracestate: 'a=b',
    })
    const { data, ...others } = JSON.parse(bodyOf(structured)) as Record<string, unknown>
    expect(data).toEqual(payload)
    expectValid(others)
    expect(others).toMatchObject({ id: structured?.id, subject: KEYED.orderingKey, partitionkey: KEYED.orderingKey })
    expect(Object.keys(others).toSorted()).toEqual(Object.keys(attributes).toSorted())
    expect(structured?.headers).toMatchObject({
      'content-type': 'application/cloudevents+json; charset=UTF-8',
      traceparent: TRACEPARENT,
      priority: '3',
      'sluice-type': 'order.placed',
    })
  })

  test('takes the type from the name of the queue or the stream, and has no subject without a key', async ({
    sluice,
    queue,
    stream,
    to,
  }) => {
    await put(sluice, queue, [1])
    const position = await sluice.append(sluice.ownTransaction, stream, 2)
    await sluice.relay(queue, { to, ...BINARY }).runOnce()
    await sluice.relay({ stream, group: 'all' }, { to, ...BINARY }).runOnce()
    const [message, event] = to.stored.map(({ headers }) => attributesIn(headers))
    for (const one of [message, event]) {
      expectValid(one ?? {})
      expect(Object.keys(one ?? {}).toSorted()).toEqual([
        'datacontenttype',
        'id',
        'source',
        'specversion',
        'time',
        'type',
      ])
    }
    expect([message?.type, event?.type]).toEqual([queue, stream])
    expect(event?.id).toBe(`${to.stored[1]?.source}/${stream}/${position}`)
    expect(event?.id).not.toBe(message?.id)
  })

  test('keeps a payload of any kind as it is stored, with all digits of its numbers', async ({
    database,
    queue,
    sluice,
    to,
  }) => {
    const stored = ['12345678901234567890.12345678901234567890', '"text"', 'null', '[]']
    for (const payload of stored) await database.sql('SELECT sluice.enqueue($1, $2::text::jsonb)', [queue, payload])
    await sluice.relay(queue, { to, ...STRUCTURED }).runOnce()
    for (const [at, payload] of stored.entries()) expect(bodyOf(to.stored[at])).toMatch(`,"data":${payload}}`)
  })

  test('refuses a message that has a header of the format, or text that an attribute may not have', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    await put(sluice, queue, [1], { headers: { 'CE-Id': 'mine' } })
    await put(sluice, queue, [2], { orderingKey: 'a\nb' })
    await put(sluice, queue, [3], { headers: { 'ce-custom': 'an extension' } })
    const structured = `${queue}.structured`
    await put(sluice, structured, [4], { headers: { 'Content-Type': 'text/plain' } })
    await put(sluice, structured, [5], { type: 'a\ufffe' })
    await sluice.relay(queue, { to, ...BINARY }).runOnce()
    await sluice.relay(structured, { to, ...STRUCTURED }).runOnce()
    const dead = await database.sql<{ reason: string }>(
      'SELECT reason FROM sluice.dead_letters WHERE queue LIKE $1 ORDER BY id',
      [`${queue}%`],
    )
    expect(dead.map(({ reason }) => reason)).toEqual([
      'header "CE-Id": expected a name that the format cloudevents-binary does not use',
      "the CloudEvent's subject: expected text without control characters and noncharacters of Unicode",
      'header "Content-Type": expected a name that the format cloudevents-structured does not use',
      "the CloudEvent's type: expected text without control characters and noncharacters of Unicode",
    ])
    expect(to.stored.map(({ headers }) => attributesIn(headers).custom)).toEqual(['an extension'])
  })

  test('is refused where the destination has no headers for it, and in no known format', ({ sluice, queue, to }) => {
    const { system, open } = nats({ servers: 'nats://none', subject: 'orders' })
    const relay = (destination: unknown, format: unknown) => () =>
      sluice.relay(queue, { to: destination as typeof to, format: format as 'plain' })
    expect(relay({ system, open }, 'cloudevents-binary')).toThrow(
      "format: expected 'plain' or 'cloudevents-structured', because nats has no binary mode for CloudEvents",
    )
    expect(relay({ system, open }, 'cloudevents-structured')).not.toThrow()
    expect(relay(to, 'cloudevents')).toThrow("expected 'plain', 'cloudevents-binary' or 'cloudevents-structured'")
  })

  test('is read from NATS by its binding', async ({ sluice, queue, broker: { server, manager } }) => {
    await manager.streams.add({ name: 'shop', subjects: ['shop'] })
    const to = nats({ servers: server.url, subject: 'shop' })
    await put(sluice, queue, [{ id: 7 }], { ...KEYED, orderingKey: 'grüße "7" %' })
    await sluice.relay(queue, { to, ...BINARY }).runOnce()
    await put(sluice, queue, [{ id: 8 }], KEYED)
    await sluice.relay(queue, { to, ...STRUCTURED }).runOnce()
    const [binary, structured] = await storedIn(manager, 'shop')
    const attributes = attributesIn(binary?.headers)
    expectValid(attributes)
    expect(binary?.headers['ce-subject']).toBe('gr%C3%BC%C3%9Fe%20%227%22%20%25')
    expect(attributes).toMatchObject({ id: binary?.id, subject: 'grüße "7" %', datacontenttype: 'application/json' })
    expect(JSON.parse(binary?.body ?? '')).toEqual({ id: 7 })
    const { data, ...others } = JSON.parse(structured?.body ?? '') as Record<string, unknown>
    expectValid(others)
    expect({ data, id: others.id }).toEqual({ data: { id: 8 }, id: structured?.id })
    expect(structured?.headers['content-type']).toBe('application/cloudevents+json; charset=UTF-8')
  })
})

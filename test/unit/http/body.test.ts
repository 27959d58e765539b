import { describe, expect, test } from 'vitest'
import { checkerOf } from '../../../src/http/checker.ts'
import { readBody } from '../../../src/http/read-body.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

function requestOf(body: ReadableStream | string | null, headers: Record<string, string> = {}): Request {
  const streamed = body instanceof ReadableStream ? ({ duplex: 'half' } as const) : {}
  return new Request('http://localhost/queues/q/messages', {
    method: 'POST',
    headers: { ...JSON_TYPE, ...headers },
    body,
    ...streamed,
  })
}

describe('the body of a request', () => {
  test('is copied as it comes, so that a byte takes a byte and not an object', async () => {
    const text = JSON.stringify({ text: 'x'.repeat(100_000) })
    const bytes = Buffer.from(text)
    // Whoever keeps a chunk finds the last byte in it.
    const chunk = new Uint8Array(1)
    let at = 0
    const body = new ReadableStream(
      {
        pull(controller) {
          if (at === bytes.length) return controller.close()
          chunk[0] = bytes[at++]!
          controller.enqueue(chunk)
        },
      },
      { highWaterMark: 0 },
    )
    expect(await readBody(requestOf(body), bytes.length)).toEqual(JSON.parse(text))
  })

  test.each([
    ['was declared with a length', requestOf(null, { 'content-length': '17' }), 500],
    ['was to come in chunks', requestOf(null, { 'transfer-encoding': 'chunked' }), 400],
  ])('that %s and is empty is not an empty object', async (_, request, status) => {
    await expect(readBody(request, 100)).rejects.toMatchObject({ status })
  })

  test('that somebody has read before is not there', async () => {
    const request = requestOf('{"limit":5}')
    await request.text()
    const cause = expect.objectContaining({ message: expect.stringContaining('before the handler') })
    await expect(readBody(request, 100)).rejects.toMatchObject({ status: 500, cause })
  })

  test('may be empty', async () => {
    expect(await readBody(requestOf(null), 100)).toBeUndefined()
    expect(await readBody(requestOf('', { 'content-length': '0' }), 100)).toBeUndefined()
  })

  test.each(['9007199254740993e0', '9007199254740.993e3', '90071992547409930e-1', '9007199254740993.0E+0'])(
    'with %s, which JavaScript would round, is refused',
    async (number) => {
      await expect(readBody(requestOf(`{"n":-${number}}`), 100)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    },
  )

  test.each(['9007199254740992e0', '6.02e23', '1e23', '1.5e3', '12345678901234567e-16', '0e0', '-0.0e5', '1e-400'])(
    'with %s, which comes back as the same, is taken',
    async (number) => {
      expect(await readBody(requestOf(`{"n":${number}}`), 100)).toEqual({ n: Number(number) })
    },
  )
})

describe('a body with properties that nobody knows', () => {
  const item = { type: 'object', additionalProperties: false, properties: { payload: {} } } as const
  const check = checkerOf({
    type: 'object',
    additionalProperties: false,
    properties: { messages: { type: 'array', maxItems: 3, items: item } },
  })

  test.each([
    ['130,000 of them', Object.fromEntries(Array.from({ length: 130_000 }, (_, n) => [`no${n}`, n])), 'received "no0"'],
    ['one of 4 MB', { ['payload'.repeat(600_000)]: 1 }, 'received "payloadpayload'],
  ])('is refused with the first: %s', (_, message, received) => {
    expect(() => check({ messages: [{ payload: 1 }, message] })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(received) }),
    )
    expect(() => check(message)).toThrow(expect.objectContaining({ message: expect.stringContaining(received) }))
  })

  test('and one that was likely meant says which', () => {
    expect(() => check({ messages: [{ paylaod: 1 }] })).toThrow(
      'messages[0]: expected only the options payload, received "paylaod". Did you mean payload?',
    )
  })
})

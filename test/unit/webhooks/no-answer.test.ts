import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { AddressRefused, BY_NETWORKS, noAnswerText } from '../../../src/outbound/no-answer.ts'
import { resolveOutbound } from '../../../src/outbound/options.ts'
import { Poster } from '../../../src/outbound/poster.ts'

test('the text of a failed connection names no address, neither of the receiver nor of this machine', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  const plan = resolveOutbound('test', { allowHttp: true, ports: [port], networks: ['127.0.0.0/8', '::1/128'] })
  for (const addresses of [['127.0.0.1'], ['127.0.0.1', '127.0.0.2']]) {
    const poster = new Poster(plan, (_hostname, _options, callback) =>
      callback(
        null,
        addresses.map((address) => ({ address, family: 4 })),
      ),
    )
    const request = { url: `http://inside.example:${port}/`, headers: {}, body: Buffer.alloc(0) }
    const error: unknown = await poster.post(request, new AbortController().signal).catch((thrown: unknown) => thrown)
    expect(noAnswerText(error)).toBe('Error: connect ECONNREFUSED')
  }
})

test.for([
  [
    new AddressRefused('a.example', '10.0.0.1'),
    `Error: a.example: expected a public address, received one that is not allowed. ${BY_NETWORKS}`,
  ],
  [new Error('no answer within 1000 ms'), 'Error: no answer within 1000 ms'],
  [
    new Error('the proxy failed', {
      cause: Object.assign(new Error('10.0.0.9'), { address: '10.0.0.9', code: 'E', syscall: 'connect' }),
    }),
    'Error: connect E',
  ],
  ['a text', 'a text'],
] as const)('the text of %s', ([error, text]) => {
  expect(noAnswerText(error)).toBe(text)
})

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { expect, onTestFinished } from 'vitest'
import type { Destination } from '../../../src/index.ts'
import { kafka } from '../../../src/kafka/kafka.ts'
import { nats } from '../../../src/nats/nats.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import { redis } from '../../../src/redis/redis.ts'
import { SELF_SIGNED } from '../../support/servers/self-signed.ts'
import { put, test } from '../../support/sluice.ts'

const NATS_INFO = 'INFO {"server_id":"x","version":"2.9.10","tls_required":true,"max_payload":1000,"proto":1}\r\n'

/** A server that has a certificate and nothing else. @param greeting what it says before TLS begins */
async function serverWithCertificate(greeting: string): Promise<string> {
  const secured = createTlsServer(SELF_SIGNED).on('tlsClientError', () => undefined)
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    const secure = () => secured.emit('connection', socket)
    if (greeting === '') secure()
    else socket.write(greeting, secure)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

test.for<[string, string, (host: string) => Destination]>([
  ['nats', NATS_INFO, (host) => nats({ servers: `tls://${host}`, subject: 'shop', connection: { tls: {} } })],
  ['rabbitmq', '', (host) => rabbitmq({ servers: `amqps://${host}`, exchange: 'shop', routingKey: '' })],
  ['redis', '', (host) => redis({ url: `rediss://${host}`, stream: 'shop' })],
  ['kafka', '', (host) => kafka({ servers: host, topic: 'shop', connection: { tls: {} } })],
])('a certificate that is not trusted is a setting, with %s', async ([, greeting, to], { sluice, queue, log }) => {
  await put(sluice, queue, [1])
  await sluice.relay(queue, { to: to(await serverWithCertificate(greeting)) }).runOnce()
  expect(log.of('relay.unavailable')).toMatchObject([
    { cause: 'settings', error: expect.stringContaining('self-signed certificate') },
  ])
})

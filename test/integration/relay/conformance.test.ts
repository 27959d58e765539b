import { describe, onTestFinished, test } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { nats } from '../../../src/nats/nats.ts'
import { type ConformanceSubject, conformance } from '../../../src/testing/conformance.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { startNats, storedIn } from '../../support/servers/nats.ts'

describe('the destination in memory', () => {
  for (const { name, run } of conformance) test(name, () => run(inMemory()))
})

describe('NATS JetStream', () => {
  for (const { name, run } of conformance) test(name, async ({ skip }) => run(await inNats(skip)))
})

function inMemory(): ConformanceSubject {
  const to = new MemoryDestination()
  to.answer = ({ body }) => (body.byteLength > 10_000 ? { kind: 'refused', error: 'too large' } : { kind: 'confirmed' })
  return {
    to,
    stored: async () =>
      to.stored.map(({ id, body, headers }) => ({ id, body: new TextDecoder().decode(body), headers })),
    cutOff: async () => {
      to.reachable = false
      return async () => {
        to.reachable = true
      }
    },
    spoil: (message) => ({ ...message, body: new Uint8Array(10_001) }),
  }
}

async function inNats(skip: Parameters<typeof startNats>[0]): Promise<ConformanceSubject> {
  const { server, manager } = await startNats(skip)
  await manager.streams.add({ name: 'orders', subjects: ['orders.>'], max_msg_size: 20_000 })
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(server.port)
  return {
    to: nats({ servers: `nats://127.0.0.1:${way.port}`, subject: 'orders.placed' }),
    stored: () => storedIn(manager, 'orders'),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(server.port)
    },
    spoil: (message) => ({ ...message, body: new Uint8Array(30_000) }),
  }
}

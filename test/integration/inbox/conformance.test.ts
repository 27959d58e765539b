import { describe, onTestFinished, test } from 'vitest'
import { TcpRelay } from '../../../faults/environment/tcp-relay.ts'
import { fromNats } from '../../../src/nats/from-nats.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { type ReceiverSubject, receiverConformance } from '../../../src/testing/receiver-conformance.ts'
import { addConsumer, publishTo, startNats } from '../../support/servers/nats.ts'

describe('the receiver in memory', () => {
  for (const { name, run } of receiverConformance) test(name, () => run(inMemory()))
})

describe('NATS JetStream', () => {
  for (const { name, run } of receiverConformance) test(name, async ({ skip }) => run(await inNats(skip)))
})

function inMemory(): ReceiverSubject {
  const from = new MemoryReceiver()
  return {
    from,
    publish: async (messages) => {
      from.deliver(...messages.map(({ id, body, headers }) => ({ id, body: new TextEncoder().encode(body), headers })))
    },
    cutOff: async () => {
      from.reachable = false
      return async () => {
        from.reachable = true
      }
    },
  }
}

async function inNats(skip: Parameters<typeof startNats>[0]): Promise<ReceiverSubject> {
  const broker = await startNats(skip)
  const { server, manager } = broker
  await manager.streams.add({ name: 'orders', subjects: ['orders'] })
  await addConsumer(manager, 'orders', 'inbox')
  const way = await TcpRelay.start()
  onTestFinished(() => way.stop())
  way.pointTo(server.port)
  return {
    from: fromNats({ servers: `nats://127.0.0.1:${way.port}`, stream: 'orders', consumer: 'inbox' }),
    publish: (messages) => publishTo(broker, 'orders', messages),
    cutOff: async () => {
      way.pointTo(undefined)
      way.cut()
      return async () => way.pointTo(server.port)
    },
  }
}

import type { JetStreamManager } from '@nats-io/jetstream'
import { expect, type TestContext } from 'vitest'
import { CLUSTER_FAULTS, type ClusterFault } from '../../faults/environment/cluster-faults.ts'
import type { ReplicatedStream } from '../../faults/environment/replicated-stream.ts'
import { nats } from '../../src/nats/nats.ts'
import { EventLog } from '../support/event-log.ts'
import { payloadsOf } from '../support/rows/rows.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { startNatsCluster, storedIn } from '../support/servers/nats.ts'
import { put, startTestSluice } from '../support/sluice.ts'
import { test } from '../support/test.ts'
import { waitFor } from '../support/wait.ts'

const STREAM = 'orders'
const KEYS = 20
const MESSAGES = 1_000

/** An election takes seconds, so the three are struck at a time: each cluster, with its relay, for itself. */
test('a leader that is killed, stopped or cut off loses and doubles nothing, and each key stays in order', async ({
  database,
  skip,
}) => {
  await Promise.all(CLUSTER_FAULTS.map((fault, at) => relayWhile(fault, `cluster.${at}`, database, skip)))
})

async function relayWhile(
  { name, strike }: ClusterFault,
  queue: string,
  database: TestDatabase,
  skip: TestContext['skip'],
): Promise<void> {
  const { cluster, manager, stream } = await startNatsCluster(skip, STREAM)
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  for (let key = 0; key < KEYS; key += 1) {
    const numbers = Array.from({ length: MESSAGES / KEYS }, (_, n) => ({ key, n }))
    await put(sluice, queue, numbers, { orderingKey: String(key) })
  }
  const to = nats({ servers: cluster.urls, subject: STREAM, stream: STREAM })
  const terms = { confirmTimeout: '1s', breaker: { delay: '100ms', maxDelay: '500ms' } } as const
  const leader = await stream.leader()
  const running = sluice.relay(queue, { to, batchSize: 20, ...terms }).start()
  await log.first('batch.committed')
  const undo = await strike(cluster, leader)
  // It goes on while the fault lasts, for a majority is left.
  const what = `all messages while the leader ${name}`
  await waitFor(async () => (await payloadsOf(database, queue)).length === 0, { what, timeoutMs: 90_000 })
  await running.drain()
  await undo()
  await expectInOrder(manager, stream, name)
}

async function expectInOrder(manager: JetStreamManager, stream: ReplicatedStream, name: string): Promise<void> {
  await stream.whole(MESSAGES)
  const next = new Map<number, number>()
  const stored = await waitFor(() => storedIn(manager, STREAM).catch(() => undefined), {
    what: 'its messages',
    timeoutMs: 90_000,
  })
  for (const { body } of stored) {
    const { key, n } = JSON.parse(body) as { readonly key: number; readonly n: number }
    expect([name, key, n]).toEqual([name, key, next.get(key) ?? 0])
    next.set(key, n + 1)
  }
  expect([name, stored.length]).toEqual([name, MESSAGES])
}

import { prometheus } from '../../../src/prometheus/prometheus.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** A worker whose heartbeats soon tell what is new. */
const test = base.extend('sluice', ({ database }) => startTestSluice(database, { pollInterval: '100ms' }))

const OFTEN = { delay: '10ms', maxDelay: '20ms' } as const

test('the metrics count for each queue the workers whose relay or inbox is unavailable', async ({ sluice, queue }) => {
  const [to, from, other] = [new MemoryDestination(), new MemoryReceiver(), `${queue}.in`]
  const has = async (line: string) => prometheus(await sluice.operate.metrics()).includes(`\n${line}\n`)
  const until = (line: string) => waitFor(() => has(line), { what: line })
  sluice.relay(queue, { to, breaker: OFTEN }).start()
  sluice.inbox(other, { from, breaker: OFTEN }).start()
  await until(`sluice_relay_unavailable_workers{queue="${queue}"} 0`)
  await until(`sluice_inbox_unavailable_workers{queue="${other}"} 0`)
  to.answer = () => ({ kind: 'unavailable', error: 'no leader' })
  await put(sluice, queue, [1])
  from.reachable = false
  await until(`sluice_relay_unavailable_workers{queue="${queue}"} 1`)
  await until(`sluice_inbox_unavailable_workers{queue="${other}"} 1`)
  to.answer = () => ({ kind: 'confirmed' })
  from.reachable = true
  await until(`sluice_relay_unavailable_workers{queue="${queue}"} 0`)
  await until(`sluice_inbox_unavailable_workers{queue="${other}"} 0`)
})

import { expect, onTestFinished, test, vi } from 'vitest'
import { DeliveredMessage } from '../../../src/claim/delivered-message.ts'
import type { Message } from '../../../src/message.ts'
import { type RelayOptions, resolveRelay } from '../../../src/relay/options.ts'
import { RelayHandler } from '../../../src/relay/relay-handler.ts'
import { RelayOutlet } from '../../../src/relay/relay-outlet.ts'
import type { Row } from '../../../src/table/statement.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { claimedRow } from '../../support/rows/claimed-row.ts'

const SOURCE = '3f0c1f6e-6a0b-4b7e-9d6c-0a1b2c3d4e5f'
const NEVER = new AbortController().signal

test('a batch whose messages all have an answer starts no timer but that of its confirms', async () => {
  const { handler } = await relayTo(new MemoryDestination(), { confirmTimeout: '7s' })
  const timers = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => timers.mockRestore())
  const outcomes = await handler.handle([message('1'), message('2')], { signal: NEVER })
  expect(outcomes).toEqual([{ kind: 'ack' }, { kind: 'ack' }])
  // One of no time would take a millisecond.
  expect(timers.mock.calls.map(([, ms]) => ms)).toEqual([7_000])
})

test('the attributes of a CloudEvent are made once for a message', async () => {
  const to = new MemoryDestination()
  const made = vi.spyOn(to, 'cloudEventHeader')
  const { handler } = await relayTo(to, { format: 'cloudevents-binary' })
  await handler.handle([message('1')], { signal: NEVER })
  expect(made.mock.calls.map(([attribute]) => attribute)).toEqual([
    'specversion',
    'id',
    'source',
    'type',
    'time',
    'datacontenttype',
  ])
  expect(to.stored[0]?.headers).toMatchObject({ 'ce-id': `${SOURCE}/1`, 'ce-type': 'orders' })
})

/** A relay that has its connection. */
async function relayTo(
  to: MemoryDestination,
  options: Partial<RelayOptions> = {},
): Promise<{ readonly handler: RelayHandler }> {
  const plan = resolveRelay('orders', { to, ...options })
  const outlet = new RelayOutlet(plan, () => undefined, true)
  onTestFinished(() => outlet.close())
  const passage = await outlet.enter(async (): Promise<Row[]> => [{ id: SOURCE }], NEVER)
  expect(passage).toBeDefined()
  return { handler: new RelayHandler(plan, outlet) }
}

function message(id: string): Message {
  return new DeliveredMessage('orders', claimedRow({ id })).handed
}

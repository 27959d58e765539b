import { expect, test } from 'vitest'
import { DeliveredMessage } from '../../src/claim/delivered-message.ts'
import { LeasedMessage } from '../../src/modes/leased/leased-message.ts'
import type { Written } from '../../src/modes/leased/settle/lease-writer.ts'
import { Renewer } from '../../src/modes/leased/settle/renewer.ts'
import { claimedRow } from '../support/rows/claimed-row.ts'

test('renews 6,000 leases by three statements, and lets settlements pass between them', async () => {
  const sizes: number[] = []
  const renew = async (leases: readonly { readonly id: string }[]): Promise<Written> => {
    sizes.push(leases.length)
    return { ids: new Set(leases.map(({ id }) => id)), locked: new Set(), untouched: new Set() }
  }
  const renewer = new Renewer({ renew, isCut: false }, () => undefined)
  const renewed = renewer.renew(Array.from({ length: 6_000 }, (_, at) => leased(at)))
  const pending: boolean[] = []
  // Each call is one turn of the settler.
  for (let turn = 0; turn < 3; turn += 1) {
    pending.push(renewer.isPending)
    await renewer.run()
  }
  await renewed
  expect(sizes).toEqual([2_500, 2_500, 1_000])
  expect([...pending, renewer.isPending]).toEqual([true, true, true, false])
})

function leased(id: number): LeasedMessage {
  const message = new DeliveredMessage('queue', claimedRow({ id: String(id) }))
  return new LeasedMessage(message, {
    lease: '1',
    batchId: 1,
    ms: 60_000,
    claimedAtMs: performance.now(),
    claimedUs: 0,
  })
}

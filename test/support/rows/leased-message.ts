import { DeliveredMessage } from '../../../src/claim/delivered-message.ts'
import { LeasedMessage } from '../../../src/modes/leased/leased-message.ts'
import { claimedRow } from './claimed-row.ts'

/** A message in flight under a lease of a minute that begins now. */
export function leasedMessage(id: string): LeasedMessage {
  const message = new DeliveredMessage('queue', claimedRow({ id }))
  const claimedAtMs = performance.now()
  return new LeasedMessage(message, { lease: '1', batchId: 1, ms: 60_000, claimedAtMs, claimedUs: 0 })
}

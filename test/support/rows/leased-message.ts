import { LeasedMessage } from '../../../src/modes/leased/leased-message.ts'
import { claimedRow } from './claimed-row.ts'

/** A message in flight under a lease of a minute that begins now. */
export function leasedMessage(id: string): LeasedMessage {
  const claimedAtMs = performance.now()
  return new LeasedMessage('queue', claimedRow({ id }), {
    lease: '1',
    batchId: 1,
    ms: 60_000,
    claimedAtMs,
    claimedUs: 0,
  })
}

import { TRANSACTION_WITHOUT_LEASE } from './leased-twins.ts'
import type { Twin } from './twins.ts'

export const EXPIRED_IS_HANDED_OUT = {
  name: 'expired-is-handed-out',
  title: 'a worker that does not check whether a message has expired',
  edits: [
    {
      file: 'claim/has-expired.ts',
      from: 'options.expiresUs !== null &&',
      to: 'options.expiresUs === -1 &&',
    },
  ],
  caught: ['after its end'],
} as const satisfies Twin

/** The scenario cancels by itself, and does it wrongly. */
export const CANCELLER_ASKS_NOBODY = {
  name: 'canceller-asks-nobody',
  title: 'a cancel that takes the answer before the COMMIT for the outcome of the message',
  caught: ['after its end'],
} as const satisfies Twin

export const CANCELLED_WITH_LEASE = {
  ...TRANSACTION_WITHOUT_LEASE,
  name: 'cancelled-with-lease',
  caught: ['after its end'],
} as const satisfies Twin

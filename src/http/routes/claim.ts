import { toMsWithin } from '../../basics/time/duration.ts'
import { DURATION, graceOf, LIMIT, leaseOf } from '../forms.ts'
import { optionsOf } from '../json-schema.ts'
import { routeWithBody } from '../route.ts'
import { CLAIM, claimText } from './claim-form.ts'

const BODY = optionsOf({
  limit: { ...LIMIT, default: 10 },
  lease: { ...DURATION, default: '1m' },
  grace: { ...DURATION, default: 0 },
  wait: { ...DURATION, default: 0 },
  maxAttempts: {
    description: 'an integer from 1 to 1,000,000',
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    default: 20,
  },
})

export const CLAIM_MESSAGES = routeWithBody({
  name: 'claim',
  method: 'POST',
  path: '/queues/{queue}/claims',
  action: 'claim',
  summary: 'Claim messages for a time, and wait for them if there are none',
  body: BODY,
  answers: [
    {
      status: 201,
      description: 'Settle the messages before expiresAt',
      schema: CLAIM,
      headers: { Location: { description: 'the path of the claim, relative to that of the request', type: 'string' } },
    },
    { status: 204, description: 'There is nothing to claim' },
  ],
  run: async ({ sluice, queue, signal }, { limit, lease, grace, wait, maxAttempts }) => {
    const claim = await sluice.claim(queue, {
      limit,
      lease: leaseOf(lease),
      grace: graceOf(grace),
      wait: wait === undefined ? undefined : toMsWithin('wait', wait, '0ms', '5m'),
      maxAttempts,
      signal,
    })
    if (claim === undefined) return { status: 204 }
    if (signal.aborted) {
      // No client would settle it.
      await claim.release()
      throw signal.reason
    }
    return { status: 201, body: claimText(claim), headers: { location: `claims/${claim.id}` } }
  },
})

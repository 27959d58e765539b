import { describe } from '../../errors.ts'
import { DURATION, graceOf, ID, INSTANT, leaseOf } from '../forms.ts'
import { objectOf, optionsOf, type ValueOf } from '../json-schema.ts'
import { Problem } from '../problem.ts'
import { type Call, route, routeWithBody } from '../route.ts'
import { CLAIM, claimText } from './claim-form.ts'

/** What one claim is asked for. */
export const ONE_CLAIM = { path: '/queues/{queue}/claims/{id}', action: 'claim', problems: [410] } as const

export const GET_CLAIM = route({
  ...ONE_CLAIM,
  name: 'getClaim',
  method: 'GET',
  summary: 'The messages of a claim that are not settled',
  answers: [{ status: 200, description: 'The claim', schema: CLAIM }],
  run: async (call) => {
    const claim = await call.sluice.operate.claims.get(call.queue, claimIdOf(call))
    return { status: 200, body: claimText(claim) }
  },
})

const RENEWED = objectOf('the new end of the claim', { id: ID, expiresAt: INSTANT })

export const RENEW_CLAIM = routeWithBody({
  ...ONE_CLAIM,
  name: 'renewClaim',
  method: 'PATCH',
  summary:
    'Make a claim last for lease from now, and its messages live until grace after that. Both default to their last values',
  body: optionsOf({ lease: DURATION, grace: DURATION }),
  answers: [{ status: 200, description: 'The claim is renewed', schema: RENEWED }],
  run: async (call, { lease, grace }) => {
    const id = claimIdOf(call)
    const expiresAt = await call.sluice.operate.claims.renew(call.queue, id, leaseOf(lease), graceOf(grace))
    const renewed: ValueOf<typeof RENEWED> = { id, expiresAt: expiresAt.toISOString() }
    return { status: 200, body: JSON.stringify(renewed) }
  },
})

export const RELEASE_CLAIM = route({
  ...ONE_CLAIM,
  problems: [],
  name: 'releaseClaim',
  method: 'DELETE',
  summary: 'Give back the messages that are not settled. A claim that is unknown or over is ignored',
  answers: [{ status: 204, description: 'The claim is released, or there is none' }],
  run: async (call) => {
    await call.sluice.operate.claims.release(call.queue, claimIdOf(call))
    return { status: 204 }
  },
})

/** The id in the path. @throws Problem 404: what is no number was never the id of a claim. */
export function claimIdOf(call: Call): string {
  if (/^\d{1,19}$/.test(call.id) && BigInt(call.id) < 2n ** 63n) return call.id
  const detail = `The id of a claim: expected digits, received ${describe(call.id)}`
  throw new Problem(404, detail, { code: 'CLAIM_UNKNOWN' })
}

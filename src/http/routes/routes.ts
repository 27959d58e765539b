import { openApiDocument } from '../document.ts'
import { type HttpRoute, route } from '../route.ts'
import { CLAIM_MESSAGES } from './claim.ts'
import { COUNT_MESSAGES } from './count.ts'
import { ENQUEUE } from './enqueue.ts'
import { GET_CLAIM, RELEASE_CLAIM, RENEW_CLAIM } from './one-claim.ts'
import { POP } from './pop.ts'
import { SETTLE_CLAIM } from './settle.ts'

/** All routes. The router, and the document, know no others. */
export const ROUTES: readonly HttpRoute[] = [
  ENQUEUE,
  CLAIM_MESSAGES,
  GET_CLAIM,
  RENEW_CLAIM,
  RELEASE_CLAIM,
  SETTLE_CLAIM,
  POP,
  COUNT_MESSAGES,
  route({
    name: 'describe',
    method: 'GET',
    path: '/openapi.json',
    action: 'describe',
    summary: 'This document',
    answers: [{ status: 200, description: 'The OpenAPI document', schema: { type: 'object' } }],
    run: async () => ({ status: 200, body: JSON.stringify(openApiDocument(ROUTES)) }),
  }),
]

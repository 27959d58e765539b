import { openApiDocument } from '../document.ts'
import { type Route, route } from '../route.ts'
import { COUNT_MESSAGES } from './count.ts'
import { ENQUEUE } from './enqueue.ts'

/** All routes. The router, and the document, know no others. */
export const ROUTES: readonly Route[] = [
  ENQUEUE,
  COUNT_MESSAGES,
  route({
    name: 'describe',
    method: 'GET',
    path: '/openapi.json',
    action: 'describe',
    summary: 'This document',
    answers: [{ status: 200, description: 'The OpenAPI document', schema: { type: 'object' } }],
    run: async () => ({ status: 200, body: openApiDocument(ROUTES) }),
  }),
]

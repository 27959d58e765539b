import { Problem } from './problem.ts'

/** What a request does. `claim` covers everything that takes messages: to claim, to use a claim, and to pop. */
export type HttpAction = 'enqueue' | 'claim' | 'count' | 'describe'

/** What `authorize` decides about. */
export interface HttpAccess {
  /** What the request does. */
  readonly action: HttpAction
  /** The queue; null if the action is `describe`. */
  readonly queue: string | null
}

/** Decides whether a request is let in: only `true` lets it in. A `Response` is sent instead. */
export type Authorize = (request: Request, access: HttpAccess) => boolean | Response | PromiseLike<boolean | Response>

/**
 * Asks `authorize`.
 *
 * @returns undefined if the request is let in; otherwise what to answer.
 * @throws Problem 401, 403, 500
 */
export async function refusalOf(
  authorize: Authorize,
  request: Request,
  access: HttpAccess,
): Promise<Response | undefined> {
  const decision = await decisionOf(authorize, request, access)
  if (decision === true) return undefined
  if (isResponse(decision)) return decision
  if (request.headers.has('authorization')) {
    throw new Problem(403, `The credentials do not allow this: ${access.action} ${access.queue ?? ''}`.trimEnd())
  }
  const headers = { 'www-authenticate': 'Bearer' }
  throw new Problem(401, 'Authorization: expected credentials, received none', { headers })
}

/** A SluiceError from inside `authorize` is not about the request. */
async function decisionOf(authorize: Authorize, request: Request, access: HttpAccess): Promise<unknown> {
  try {
    return await authorize(request, access)
  } catch (cause) {
    throw Problem.hiding(cause)
  }
}

/** Not by its class: frameworks have their own. */
function isResponse(value: unknown): value is Response {
  if (typeof value !== 'object' || value === null || !('status' in value && 'headers' in value)) return false
  return 'arrayBuffer' in value && typeof value.arrayBuffer === 'function'
}

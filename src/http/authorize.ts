import { Problem } from './problem.ts'

/** What a request asks for. `claim` is all that takes messages: claims, what is done with them, and pop. */
export type HttpAction = 'enqueue' | 'claim' | 'count' | 'describe'

/** What `authorize` decides about. */
export interface HttpAccess {
  /** What the request asks for. */
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

/** An error of ours may come from within it as well, and is not about the request then. */
async function decisionOf(authorize: Authorize, request: Request, access: HttpAccess): Promise<unknown> {
  try {
    return await authorize(request, access)
  } catch (cause) {
    throw Problem.hiding(cause)
  }
}

/** Not by its class, because frameworks bring their own. */
function isResponse(value: unknown): value is Response {
  if (typeof value !== 'object' || value === null || !('status' in value && 'headers' in value)) return false
  return 'arrayBuffer' in value && typeof value.arrayBuffer === 'function'
}

import type { Resolved, Viewer } from '../options.ts'
import { Refusal } from './refusal.ts'

/**
 * Asks `authorize` who sends a request.
 *
 * @returns a Response of `authorize` itself is to be sent.
 * @throws Refusal 403; whatever `authorize` throws
 */
export async function viewerOf(request: Request, { authorize, readOnly }: Resolved): Promise<Viewer | Response> {
  if (authorize === undefined) throw new Refusal(403, 'Nobody is let in', WITHOUT)
  const decided = await Promise.resolve<unknown>(authorize(request))
  if (isResponse(decided)) return decided
  if (!isViewer(decided)) throw new Refusal(403, 'You may not look at this', REFUSED)
  return readOnly ? { user: decided.user, may: 'read' } : { user: decided.user, may: decided.may }
}

const WITHOUT =
  'This page was mounted without authorize, so it refuses everyone. Give dashboard(sluice, { authorize }) a function that returns ' +
  "{ user, may: 'read' } or { user, may: 'act' } for those who are let in."
const REFUSED = 'authorize of this page has not let this request in.'

function isViewer(value: unknown): value is Viewer {
  if (typeof value !== 'object' || value === null || !('user' in value && 'may' in value)) return false
  const { user } = value
  if (typeof user !== 'string' || user === '' || user.length > MOST_CHARACTERS) return false
  return value.may === 'read' || value.may === 'act'
}

/** As long as a name in the audit may be. */
const MOST_CHARACTERS = 200

/** Not by its class: frameworks have their own. */
function isResponse(value: unknown): value is Response {
  if (typeof value !== 'object' || value === null || !('status' in value && 'headers' in value)) return false
  return 'arrayBuffer' in value && typeof value.arrayBuffer === 'function'
}

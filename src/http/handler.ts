import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { expected, toError } from '../errors.ts'
import { internalsOf } from '../process/internals.ts'
import type { Sluice } from '../sluice.ts'
import { type Authorize, refusalOf } from './authorize.ts'
import { Problem } from './problem.ts'
import { readBody } from './read-body.ts'
import type { Answer } from './route.ts'
import { Router } from './router.ts'
import { ROUTES } from './routes/routes.ts'

/** The options of {@link createHttpHandler}. */
export interface HttpHandlerOptions {
  /**
   * Decides about each request, before its body is read: may it do this with this queue? Only `true` lets it in. Otherwise the
   * answer is 401 without an `Authorization` header, 403 with one, or the `Response` that it returns.
   */
  readonly authorize: Authorize
  /** The part of request paths before `/queues`, such as '/sluice'. @default '' */
  readonly basePath?: string | undefined
  /** The largest body of a request in bytes, 1 to 268,435,456 (256 MiB). @default 4194304 */
  readonly maxBodyBytes?: number | undefined
}

/** What `createHttpHandler` returns. It never rejects: errors are answers. */
export type HttpHandler = (request: Request) => Promise<Response>

/**
 * Serves queues over HTTP, to programs in any language: enqueue, claim, renew, settle, release, pop and count. It is a function
 * of the Fetch API, for `Bun.serve`, Deno, Hono, Next.js and, with an adapter, Node. See docs/guides/http.md.
 *
 * @param sluice what `createSluice` returned.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example
 * const handler = createHttpHandler(sluice, {
 *   authorize: (request, { action, queue }) => mayDo(userOf(request), action, queue),
 * })
 */
export function createHttpHandler(sluice: Sluice, options: HttpHandlerOptions): HttpHandler {
  const { report } = internalsOf(sluice)
  const { authorize, basePath, maxBodyBytes } = resolveOptions(options)
  const router = new Router(ROUTES, basePath)

  async function answerTo(request: Request): Promise<Response> {
    const { route, queue, id } = router.find(request.method, request.url)
    const refusal = await refusalOf(authorize, request, { action: route.action, queue: queue ?? null })
    if (refusal !== undefined) return refusal
    const body = route.body && (await readBody(request, maxBodyBytes))
    const found = { sluice, queue: queue ?? '', id: id ?? '', signal: request.signal }
    return responseOf(await route.run({ ...found, failedInPart: (error) => reportFailure(request, 200, error) }, body))
  }

  function reportFailure({ method, url }: Request, status: number, error: unknown): void {
    report({ kind: 'request.failed', request: `${method} ${new URL(url).pathname}`, status, error: toError(error) })
  }

  return async (request) => {
    try {
      const response = await answerTo(request)
      return request.method === 'HEAD' ? new Response(null, response) : response
    } catch (error) {
      const { signal } = request
      if (signal.aborted && error === signal.reason) return new Response(null, { status: CLIENT_GONE })
      // A proxy whose traps throw, as a schema may throw it, is no Error.
      const problem = Problem.of(toError(error))
      if (problem.status >= 500) reportFailure(request, problem.status, problem.cause)
      return problem.toResponse()
    }
  }
}

/** Not a status of HTTP: no client receives it, and the access logs of nginx know it. */
const CLIENT_GONE = 499

function responseOf({ status, body, headers = {} }: Answer): Response {
  const own = { 'cache-control': 'no-store', ...headers }
  if (body === undefined) return new Response(null, { status, headers: own })
  return new Response(body, { status, headers: { 'content-type': 'application/json', ...own } })
}

function resolveOptions(options: HttpHandlerOptions) {
  const what = 'createHttpHandler'
  checkKeys(what, options, ['authorize', 'basePath', 'maxBodyBytes'], `As in ${what}(sluice, { authorize })`)
  const { authorize, basePath = '' } = options
  if (typeof authorize !== 'function') {
    const remedy = 'For example (request, { action, queue }) => mayDo(request, action, queue)'
    throw expected(
      'OPTION_INVALID',
      `${what}.authorize`,
      'a function that decides whether a request is let in',
      authorize,
      remedy,
    )
  }
  if (typeof basePath !== 'string' || !/^(\/[^/?#\s]+)*$/.test(basePath)) {
    const remedy = "As in '/sluice', or '' for none"
    throw expected(
      'OPTION_INVALID',
      `${what}.basePath`,
      'a path that begins with / and does not end with it',
      basePath,
      remedy,
    )
  }
  const maxBodyBytes = integer(`${what}.maxBodyBytes`, options.maxBodyBytes, 4_194_304, 1, 268_435_456)
  return { authorize, basePath, maxBodyBytes }
}

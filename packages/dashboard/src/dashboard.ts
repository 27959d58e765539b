import type { Sluice } from 'sluice'
import { guarded } from './access/headers.ts'
import { refusalOf } from './access/refusal.ts'
import { viewerOf } from './access/viewer.ts'
import { createApp, type Environment } from './app.ts'
import { type DashboardOptions, resolveOptions, type Viewer } from './options.ts'
import { refusedPage } from './refused-page.ts'

/** What `dashboard` returns. It never rejects: errors are answers. */
export type DashboardHandler = (request: Request) => Promise<Response>

/**
 * A page in the browser for the queues, streams and workers of a Sluice, as a function of the Fetch API: for Hono, Next.js, Bun,
 * Deno and, with an adapter, Node. It answers 403 to everyone until it is given `authorize`. See docs/guides/dashboard.md.
 *
 * @param sluice what `createSluice` returned; without `queues` and `streams` it shows those that the code does not define, too.
 * @throws TypeError naming the option that does not fit
 *
 * @example
 * const handler = dashboard(sluice, {
 *   basePath: '/sluice',
 *   authorize: async (request) => {
 *     const user = await userOf(request)
 *     return user?.isOperator ? { user: user.email, may: 'act' } : null
 *   },
 * })
 */
export function dashboard(sluice: Sluice, options: DashboardOptions = {}): DashboardHandler {
  const resolved = resolveOptions(options)
  const app = createApp(sluice, resolved)

  async function answerTo(request: Request): Promise<Response> {
    const viewer = await viewerOf(request, resolved)
    if (!('user' in viewer)) return viewer
    const environment: Environment = { viewer }
    return app.fetch(request, environment)
  }

  function refuse(request: Request, error: unknown, viewer: Viewer | null = null): Response {
    const refusal = refusalOf(error)
    if (refusal.status >= 500) resolved.onError(refusal.cause ?? refusal, request)
    return refusedPage(refusal, resolved.basePath, viewer)
  }

  app.onError((error, { req, env }) => refuse(req.raw, error, env.viewer))
  return async (request) => {
    try {
      return guarded(await answerTo(request))
    } catch (error) {
      return guarded(refuse(request, error))
    }
  }
}

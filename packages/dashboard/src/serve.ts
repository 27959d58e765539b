import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Sluice } from 'sluice'
import { guarded } from './access/headers.ts'
import { type DashboardHandler, dashboard } from './dashboard.ts'
import type { Mask } from './view/json.ts'

/** The options of `serveDashboard`. */
export interface ServeOptions {
  /** The port; 0: a free one. @default 0 */
  readonly port?: number | undefined
  /** Nobody may act. @default false */
  readonly readOnly?: boolean | undefined
  /** The name that is stored with what is done. */
  readonly user: string
  /** What is hidden of payloads and headers. @default [] */
  readonly mask?: Mask | undefined
}

/** A page that is served to this machine. */
export interface ServedDashboard extends AsyncDisposable {
  /** The address with the token, for one person's browser. */
  readonly url: string
}

/**
 * Serves the page to this machine alone, at 127.0.0.1: anyone with the address may use it. The token in the address becomes a
 * cookie of the browser. Requests for another host name are refused, so that no site of the web can reach it by a name of its own.
 *
 * @throws Error if the port is in use
 */
export async function serveDashboard(
  sluice: Sluice,
  { port = 0, user, ...options }: ServeOptions,
): Promise<ServedDashboard> {
  let entry: Entry | undefined
  const may = options.readOnly === true ? 'read' : 'act'
  // First, because it refuses wrong options.
  const handler = dashboard(sluice, {
    ...options,
    authorize: (request) => (entry?.lets(request) ? { user, may } : entry?.refusal()),
  })
  const server = createServer()
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const opened = new Entry((server.address() as AddressInfo).port)
  entry = opened
  server.on(
    'request',
    getRequestListener((request) => opened.answer(request, handler), { overrideGlobalObjects: false }),
  )
  return { url: opened.url, [Symbol.asyncDispose]: () => closed(server) }
}

/** The token, and the names that this machine has for itself. */
class Entry {
  readonly #token = randomBytes(24).toString('base64url')
  readonly #port: number

  constructor(port: number) {
    this.#port = port
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/?token=${this.#token}`
  }

  async answer(request: Request, handler: DashboardHandler): Promise<Response> {
    const url = new URL(request.url)
    if (!this.#isOurs(request.headers.get('host'))) return text(403, 'Host: expected this machine.')
    const given = url.searchParams.get('token')
    if (given === null) return handler(request)
    if (!this.#fits(given)) return this.refusal()
    url.searchParams.delete('token')
    const cookie = `${this.#cookie}=${this.#token}; HttpOnly; SameSite=Strict; Path=/`
    // Two slashes would lead to another host.
    const headers = { location: `/${url.pathname.replace(/^\/+/, '')}${url.search}`, 'set-cookie': cookie }
    return guarded(new Response(null, { status: 303, headers }))
  }

  lets(request: Request): boolean {
    const cookies = (request.headers.get('cookie') ?? '').split(/;\s*/)
    return cookies.some(
      (cookie) => cookie.startsWith(`${this.#cookie}=`) && this.#fits(cookie.slice(this.#cookie.length + 1)),
    )
  }

  refusal(): Response {
    return text(403, 'Open the address that sluice dashboard has printed: it has a token.')
  }

  /** Browsers share the cookies of all ports of a host. */
  get #cookie(): string {
    return `sluice_dashboard_${this.#port}`
  }

  #isOurs(host: string | null): boolean {
    return ['127.0.0.1', 'localhost', '[::1]'].some((name) => host === `${name}:${this.#port}`)
  }

  /** Compares digests, so that the time tells nothing. */
  #fits(token: string): boolean {
    return timingSafeEqual(digest(token), digest(this.#token))
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function text(status: number, sentence: string): Response {
  return guarded(new Response(`${sentence}\n`, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } }))
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

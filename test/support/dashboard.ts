import { type DashboardOptions, dashboard, type Viewer } from '../../packages/dashboard/src/index.ts'
import type { Sluice } from '../../src/sluice.ts'
import { waitFor } from './wait.ts'

/** Where the page is mounted in tests. */
export const ORIGIN = 'https://ops.example.com'
export const BASE = '/admin/sluice'

const ADA: Viewer = { user: 'ada@example.com', may: 'act' }

/** What a browser sends with a form of the page itself. */
export const OWN_FORM = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' }

/** The page, as a browser with a mouse sees it that follows no links of its own. */
export class TestPage {
  readonly #handler: (request: Request) => Promise<Response>

  constructor(sluice: Sluice, options: DashboardOptions = {}) {
    this.#handler = dashboard(sluice, { basePath: BASE, authorize: () => ADA, ...options })
  }

  send(path: string, init: RequestInit = {}): Promise<Response> {
    return this.#handler(new Request(`${ORIGIN}${BASE}${path}`, init))
  }

  async get(path: string): Promise<string> {
    const answer = await this.send(path)
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`${path}: expected 200, received ${answer.status}: ${text}`)
    return text
  }

  /** A page with counts, which do not come at once on a busy machine; if `words` are given, once it has these. */
  counted(path: string, words = ''): Promise<string> {
    const whole = async () => {
      const html = await this.get(path)
      return !html.includes('being counted') && html.includes(words) ? html : undefined
    }
    return waitFor(whole, { what: `${path} with counts${words === '' ? '' : ` and "${words}"`}` })
  }

  /** Sends a form of the page itself. */
  post(path: string, fields: Fields = {}, headers: Record<string, string> = OWN_FORM): Promise<Response> {
    return this.send(path, { method: 'POST', headers, body: bodyOf(fields) })
  }

  /** The same, after the question; the address to which it leads. */
  async act(path: string, fields: Fields = {}): Promise<string> {
    const answer = await this.post(path, { ...fields, confirmed: 'yes' })
    if (answer.status !== 303) throw new Error(`${path}: received ${answer.status}: ${await answer.text()}`)
    return answer.headers.get('location') ?? ''
  }
}

type Fields = Readonly<Record<string, string | readonly string[]>>

function bodyOf(fields: Fields): string {
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, one]),
  )
  return new URLSearchParams(pairs).toString()
}

import type { Mask } from './view/json.ts'

/** Who looks at the page, and what this person may do. */
export interface Viewer {
  /** Who. It is shown, and stored with what this person does. */
  readonly user: string
  /** `'read'`: look at everything. `'act'`: also pause, cancel, redrive, delete and so on. */
  readonly may: 'read' | 'act'
}

/** Decides about a request: a {@link Viewer} is let in, a `Response` is sent instead, and anything else is refused with 403. */
export type Authorize = (request: Request) => Decision | PromiseLike<Decision>

type Decision = Viewer | Response | null | undefined | false

/** The options of `dashboard`. */
export interface DashboardOptions {
  /** Asked about each request, those for the style and the script included. Without it every request is refused. */
  readonly authorize?: Authorize | undefined
  /** The part of request paths before the page's own, such as '/admin/queues'. @default '' */
  readonly basePath?: string | undefined
  /** Nobody may act, whatever `authorize` says. @default false */
  readonly readOnly?: boolean | undefined
  /**
   * What is hidden of payloads and headers: true: all; or the names of members, at any depth and in any case.
   * @default []
   */
  readonly mask?: Mask | undefined
  /**
   * The origin under which browsers see the page, such as 'https://ops.example.com'. Needed behind a proxy that does not pass
   * on the host name. @default the origin of the request
   */
  readonly origin?: string | undefined
  /** Called with each error that makes an answer of 500 or 503. @default writes a line to stderr */
  readonly onError?: ((error: unknown, request: Request) => void) | undefined
}

/** The options with their defaults. */
export interface Resolved {
  readonly authorize: Authorize | undefined
  readonly basePath: string
  readonly readOnly: boolean
  readonly mask: Mask
  readonly origin: string | undefined
  readonly onError: (error: unknown, request: Request) => void
}

/** @throws TypeError naming the option that does not fit */
export function resolveOptions(options: DashboardOptions): Resolved {
  if (typeof options !== 'object' || options === null) throw wrong('options', 'an object', options)
  const unknown = Object.keys(options).find((name) => !NAMES.includes(name))
  if (unknown !== undefined) throw wrong('options', `only ${NAMES.join(', ')}`, unknown)
  const { authorize, basePath = '', readOnly = false, mask = [], origin, onError = writeLine } = options
  if (authorize !== undefined && typeof authorize !== 'function') {
    throw wrong('authorize', 'a function that decides whether a request is let in', authorize)
  }
  if (typeof basePath !== 'string' || !isBasePath(basePath)) throw wrong('basePath', PATH, basePath)
  if (typeof readOnly !== 'boolean') throw wrong('readOnly', 'true or false', readOnly)
  if (mask !== true && !(Array.isArray(mask) && mask.every((name) => typeof name === 'string'))) {
    throw wrong('mask', 'true, or a list of names', mask)
  }
  if (typeof onError !== 'function') throw wrong('onError', 'a function', onError)
  return { authorize, basePath, readOnly, mask, origin: originOf(origin), onError: harmless(onError) }
}

const NAMES = ['authorize', 'basePath', 'readOnly', 'mask', 'origin', 'onError']

const PATH =
  "a path that begins with / and does not end with it, of letters, digits and - . _ ~, without the parts . and .., as in '/sluice'"

/** Browsers and frameworks resolve `.` and `..` before they ask, so a link with them would lead elsewhere. */
function isBasePath(path: string): boolean {
  return /^(\/[\w.~-]+)*$/.test(path) && !path.split('/').some((part) => part === '.' || part === '..')
}

function originOf(origin: unknown): string | undefined {
  if (origin === undefined) return undefined
  if (typeof origin === 'string' && URL.canParse(origin) && new URL(origin).origin === origin) return origin
  throw wrong('origin', "an origin, as in 'https://ops.example.com'", origin)
}

function wrong(name: string, wanted: string, received: unknown): TypeError {
  const what = typeof received === 'string' ? JSON.stringify(received) : String(received)
  return new TypeError(`dashboard.${name}: expected ${wanted}, received ${what}`)
}

/** What it throws, now or later, changes no answer. */
function harmless(onError: Resolved['onError']): Resolved['onError'] {
  return (error, request) => {
    try {
      const answer: unknown = onError(error, request)
      if (answer instanceof Promise) answer.catch(() => undefined)
    } catch {
      // The answer says that something has failed.
    }
  }
}

function writeLine(error: unknown, { method, url }: Request): void {
  const text = error instanceof Error ? (error.stack ?? String(error)) : String(error)
  process.stderr.write(`sluice-dashboard: ${method} ${new URL(url).pathname}: ${text}\n`)
}

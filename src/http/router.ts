import { checkQueueName } from '../queues.ts'
import { Problem } from './problem.ts'
import type { HttpRoute } from './route.ts'

/** Finds the routes of requests. */
export class Router {
  readonly #basePath: string
  readonly #patterns: readonly { readonly route: HttpRoute; readonly pattern: RegExp }[]

  constructor(routes: readonly HttpRoute[], basePath: string) {
    this.#basePath = basePath
    this.#patterns = routes.map((route) => ({ route, pattern: patternOf(route.path) }))
  }

  /**
   * @throws Problem 404, 405
   * @throws SluiceError QUEUE_NAME_INVALID
   */
  find(method: string, url: string): FoundRoute {
    const { pathname } = new URL(url)
    if (!pathname.startsWith(`${this.#basePath}/`)) throw notFound()
    const path = pathname.slice(this.#basePath.length)
    const onPath = this.#patterns.filter(({ pattern }) => pattern.test(path))
    if (onPath.length === 0) throw notFound()
    // The same without the body, which the handler leaves out.
    const wanted = method === 'HEAD' ? 'GET' : method
    const found = onPath.find(({ route }) => route.method === wanted)
    if (found === undefined) throw notAllowed(onPath.map(({ route }) => route.method))
    const { queue, id } = found.pattern.exec(path)?.groups ?? {}
    return { route: found.route, queue: queue && checkQueueName(decoded(queue), undefined), id: id && decoded(id) }
  }
}

/** A route, and the parameters of the path. */
export interface FoundRoute {
  readonly route: HttpRoute
  /** Undefined if the route has none. */
  readonly queue: string | undefined
  readonly id: string | undefined
}

/** `/queues/{queue}` as an expression with the group `queue`. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`)
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw notFound()
  }
}

function notFound(): Problem {
  return new Problem(404, 'There is nothing at this path. /openapi.json lists what there is')
}

function notAllowed(methods: readonly string[]): Problem {
  const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].join(', ')
  return new Problem(405, `Method: expected ${allow}`, { headers: { allow } })
}

/** The pages that the navigation lists. */
export type Place = 'overview' | 'dead' | 'workers' | 'claims' | 'schedules' | 'streams' | 'doctor' | 'audit'

/** The paths of all pages, under the base path. */
export class Paths {
  readonly #base: string

  constructor(basePath: string) {
    this.#base = basePath
  }

  /** A page of the navigation. */
  to(place: Place, query: Query = {}): string {
    return `${this.#base}/${place === 'overview' ? '' : place}${search(query)}`
  }

  /** A file of the page: its style, its script, its icon. */
  asset(name: string, version: string): string {
    return `${this.#base}/assets/${name}?v=${version}`
  }

  queue(queue: string, query: Query = {}): string {
    return `${this.#base}/queues/${encodeURIComponent(queue)}${search(query)}`
  }

  message(queue: string, id: string): string {
    return `${this.queue(queue)}/messages/${encodeURIComponent(id)}`
  }

  dead(query: Query = {}): string {
    return `${this.#base}/dead${search(query)}`
  }

  audit(query: Query = {}): string {
    return `${this.#base}/audit${search(query)}`
  }

  claim(queue: string, id: string): string {
    return `${this.queue(queue)}/claims/${encodeURIComponent(id)}`
  }

  schedule(name: string): string {
    return `${this.#base}/schedules/${encodeURIComponent(name)}`
  }

  group(stream: string, group: string): string {
    return `${this.#base}/streams/${encodeURIComponent(stream)}/groups/${encodeURIComponent(group)}`
  }
}

type Query = Readonly<Record<string, string | number | null | undefined>>

/** Empty values are left out. */
function search(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, String(value)] as const] : []))
  return given.length === 0 ? '' : `?${new URLSearchParams(Object.fromEntries(given))}`
}

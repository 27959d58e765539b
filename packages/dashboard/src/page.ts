import type { Finding, Operate, QueueBacklog } from 'sluice'
import type { Viewer } from './options.ts'
import type { Paths, Place } from './paths.ts'
import type { Findings } from './read/findings.ts'
import type { Snapshot } from './read/snapshot.ts'
import type { Summaries } from './read/summaries.ts'
import type { Html } from './view/html.ts'
import type { Mask } from './view/json.ts'

/** What a page and an action are given. */
export interface Context {
  /** In an action, in the name of the viewer. */
  readonly operate: Operate
  readonly viewer: Viewer
  readonly paths: Paths
  readonly findings: Snapshot<Findings>
  /** Counted up to 10,000: for as long as there are no findings. */
  readonly backlogs: Snapshot<readonly QueueBacklog[]>
  readonly doctor: Snapshot<readonly Finding[]>
  readonly summaries: Summaries
  readonly mask: Mask
  /** For an error that is no answer. */
  readonly report: (error: unknown) => void
  /** The parameters of the path. */
  readonly param: (name: string) => string
  /** The filters in the address. */
  readonly query: URLSearchParams
}

/** What a page shows. */
export interface Shown {
  readonly title: string
  /** The page of the navigation that it belongs to. */
  readonly place: Place
  readonly body: Html
  readonly status?: 200 | 404
}

/** Makes a page. It changes nothing. */
export type Page = (context: Context) => Promise<Shown>

import type { StreamOffset } from './stream-offset.ts'

/** Which events `streams.read` reads. */
export interface ReadOptions {
  /** Where it begins. @default 'start' */
  readonly from?: StreamOffset | undefined
  /** Where it ends: at a position, which is read, or before a time. @default 'end', as of when it begins */
  readonly to?: StreamOffset | undefined
  /** Only events with this ordering key. */
  readonly orderingKey?: string | undefined
  /** Only events of this type. */
  readonly type?: string | undefined
  /** It ends after this many events. @default all */
  readonly limit?: number | undefined
  /** Continues at the end, and looks for more after 10 to 250 ms, until the signal aborts or its reader leaves. @default false */
  readonly follow?: boolean | undefined
  /** Ends it, without an error. */
  readonly signal?: AbortSignal | undefined
}

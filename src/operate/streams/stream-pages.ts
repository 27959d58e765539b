import { codeOf } from '../../basics/errors/sql-state.ts'
import { Backoff } from '../../basics/time/backoff.ts'
import { pause } from '../../basics/time/pause.ts'
import { isSluiceError } from '../../errors.ts'
import type { Execute } from '../../table/statement.ts'
import {
  type OffsetParams,
  type PartitionRanges,
  readEvents,
  readNextPosition,
  readPositions,
  readStableEnds,
  type StableEnds,
  type StreamEvent,
} from '../../table/stream/read-events.ts'

/** Runs one statement after another, each in a snapshot of its own. */
export type Reading = <T>(work: (execute: Execute) => Promise<T>) => Promise<T>

export interface ReadPlan {
  readonly stream: string
  readonly from: OffsetParams
  /** The last position, or a time, before which the events end; `end`: the end as of now. */
  readonly to: OffsetParams
  readonly orderingKey: string | null
  readonly type: string | null
  /** Infinity: all. */
  readonly limit: number
  /** Goes on at the end. */
  readonly follow: boolean
}

/**
 * The events of a stream in order of position, page by page. It reads windows of positions below the stable ends of all
 * partitions, so that no event can appear before one that it has read. A page is 64 events at first, and then as many
 * as make 4 MiB, at most 2,000; a window is as wide as a page needs. After an empty window it skips to the next
 * position that exists.
 */
export async function* streamPages(
  plan: ReadPlan,
  reading: Reading,
  signal: AbortSignal,
): AsyncGenerator<readonly StreamEvent[], void, undefined> {
  const reader = new WindowReader(plan, reading)
  await reader.begin()
  const backoff = new Backoff(FIRST_WAIT_MS, LAST_WAIT_MS)
  // A reader that follows continues at its position after its connection was cut, also after a restart of the server.
  const outlasting = async <T>(answer: Promise<T>): Promise<T | undefined> => {
    try {
      return await answer
    } catch (error) {
      if (!plan.follow || !isCut(error)) throw error
      await pause(backoff.next(), signal)
      return undefined
    }
  }
  let left = plan.limit
  while (!signal.aborted && left > 0) {
    const events = ((await outlasting(reader.next())) ?? []).slice(0, left)
    if (events.length > 0) {
      backoff.reset()
      left -= events.length
      yield events
    } else if (reader.ended) {
      if (!plan.follow) return
      await pause(backoff.next(), signal)
      if (!signal.aborted) await outlasting(reader.lookAgain())
    }
  }
}

/** A page is read in a transaction, and its COMMIT may fail. A server that ends a session sends an error first. */
function isCut(error: unknown): boolean {
  return (
    isSluiceError(error, 'UNREACHABLE') ||
    isSluiceError(error, 'COMMIT_FAILED') ||
    /^57P0[1-5]$/.test(codeOf(error) ?? '')
  )
}

class WindowReader {
  readonly #plan: ReadPlan
  readonly #reading: Reading
  #streamId = 0
  #partitions: readonly number[] = []
  /** Of the stream; an ordering key has one partition. */
  #partitionCount = 0
  #starts: readonly number[] = []
  #ends: readonly number[] = []
  /** All events up to this position have been read. */
  #at = 0
  #end = 0
  #rows: number
  #width = FIRST_ROWS

  constructor(plan: ReadPlan, reading: Reading) {
    this.#plan = plan
    this.#reading = reading
    this.#rows = Math.min(FIRST_ROWS, plan.limit)
  }

  get ended(): boolean {
    return this.#at >= this.#end
  }

  async begin(): Promise<void> {
    const { stream, from, to, orderingKey, follow } = this.#plan
    const [look, starts, ends] = await this.#reading(async (execute) => {
      const stableEnds = await readStableEnds(execute, stream, orderingKey)
      // A position behind the end is valid: the reader waits for it.
      const first =
        from.at === 'position'
          ? stableEnds.stableEnds.map(() => (from.position ?? 0) - 1)
          : await readPositions(execute, stream, from)
      return [stableEnds, first, to.at === 'time' ? await readPositions(execute, stream, to) : null] as const
    })
    this.#streamId = look.streamId
    this.#partitions = partitionsOf(look)
    this.#partitionCount = look.stableEnds.length
    this.#starts = this.#partitions.map((partition) => starts[partition] ?? 0)
    const last = to.at === 'position' ? (to.position ?? 0) : to.at === 'start' ? 0 : Number.MAX_SAFE_INTEGER
    this.#ends = this.#partitions.map((partition) =>
      follow ? Number.MAX_SAFE_INTEGER : Math.min(ends?.[partition] ?? last, last),
    )
    this.#at = Math.min(...this.#starts)
    this.#moveEnd(look)
  }

  async lookAgain(): Promise<void> {
    const { stream, orderingKey } = this.#plan
    const look = await this.#reading((execute) => readStableEnds(execute, stream, orderingKey))
    if (look.stableEnds.length !== this.#partitionCount) this.#spread(look)
    this.#moveEnd(look)
  }

  /** A stream without events was given other partitions: all its events come after that. */
  #spread(look: StableEnds): void {
    const start = Math.min(...this.#starts)
    this.#partitions = partitionsOf(look)
    this.#partitionCount = look.stableEnds.length
    this.#starts = this.#partitions.map(() => start)
    this.#ends = this.#partitions.map(() => Number.MAX_SAFE_INTEGER)
  }

  #moveEnd({ stableEnds, trimmedTo }: StableEnds): void {
    const stableEnd = Math.min(...this.#partitions.map((partition) => stableEnds[partition] ?? 0))
    this.#end = Math.max(this.#end, Math.min(stableEnd, Math.max(...this.#ends)))
    this.#at = Math.max(this.#at, trimmedTo)
  }

  /** The next page; empty where a window has none, and at the end. */
  async next(): Promise<readonly StreamEvent[]> {
    if (this.ended) return []
    const { stream, type, orderingKey } = this.#plan
    const upTo = Math.min(this.#end, this.#at + this.#width)
    const most = this.#rows
    const page = await this.#reading((execute) =>
      readEvents(execute, stream, this.#ranges(upTo), { type, orderingKey, most }),
    )
    const full = page.length >= most
    this.#at = full ? (page.at(-1)?.event.position ?? upTo) : upTo
    if (page.length === 0) await this.#skip()
    this.#adapt(page, full)
    return page.map(({ event }) => event)
  }

  #ranges(upTo: number): PartitionRanges {
    return {
      streamId: this.#streamId,
      partitions: this.#partitions,
      starts: this.#starts.map((start) => Math.max(start, this.#at)),
      ends: this.#ends.map((end) => Math.min(end, upTo)),
    }
  }

  /** Skips to the next event of any type or key, which may be in another segment. */
  async #skip(): Promise<void> {
    if (this.ended) return
    const next = await this.#reading((execute) => readNextPosition(execute, this.#ranges(this.#end)))
    this.#at = next === null ? this.#end : next - 1
  }

  #adapt(page: readonly { readonly bytes: number }[], full: boolean): void {
    const bytes = page.reduce((sum, one) => sum + one.bytes, 0)
    const fitting = bytes === 0 ? MOST_ROWS : Math.floor((PAGE_BYTES / bytes) * page.length)
    this.#rows = Math.min(MOST_ROWS, this.#rows * 2, Math.max(LEAST_ROWS, fitting))
    this.#width = full ? Math.max(this.#rows, this.#width / 2) : Math.min(WIDEST, this.#width * 2)
  }
}

function partitionsOf({ partition, stableEnds }: StableEnds): readonly number[] {
  return partition === null ? stableEnds.map((_, at) => at) : [partition]
}

const FIRST_ROWS = 64
const LEAST_ROWS = 16
const MOST_ROWS = 2_000
const PAGE_BYTES = 4_194_304
const WIDEST = 65_536
const FIRST_WAIT_MS = 10
const LAST_WAIT_MS = 250

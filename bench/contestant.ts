import type pg from 'pg'

/**
 * A queue under test, or a yardstick beside it. What it cannot do it leaves out, and cells that need it skip it. Each
 * runs in the best configuration that its own documentation gives, and says so.
 */
export interface Contestant {
  /** As in `--only`. */
  readonly name: string
  /** For people, with the version that is installed. */
  readonly title: string
  /** What happens to a message in hand, and to its effects, when the process dies. */
  readonly guarantee: string
  /** Why it cannot run on this machine; undefined if it can. */
  missing?(): string | undefined

  /** Makes its tables, once per run. */
  install(url: string): Promise<void>
  /** All its tables that hold messages, for TRUNCATE and VACUUM. */
  readonly tables: readonly string[]
  /** Puts messages in, on the server, as if they had been enqueued one by one. One transaction. */
  fill(client: pg.Client, spec: FillSpec): Promise<void>
  /** How many messages are not settled yet, read from its tables. */
  unsettled(client: pg.Client): Promise<number>

  readonly consumes?: Capability<(url: string, spec: ConsumeSpec) => Promise<Consumer>>
  /** For what cannot be embedded in this process: drains and returns messages per second by its own clock. */
  readonly drains?: Capability<(url: string, spec: DrainSpec) => Promise<number>>
}

/** Something that a contestant can do, and how it is set up for it, in words. */
export interface Capability<Run> {
  readonly configuration: string
  readonly run: Run
}

export interface FillSpec {
  readonly messages: number
}

export interface ConsumeSpec {
  /** The most messages per claim, or per transaction. */
  readonly batchSize: number
  /** How many batches are worked on at the same time. */
  readonly inFlight: number
  readonly work: Work
  /** Called when so many messages are durably settled: their COMMIT has been answered. */
  readonly onSettled: (messages: number) => void
}

export interface DrainSpec extends Pick<ConsumeSpec, 'batchSize' | 'inFlight'> {
  readonly messages: number
}

/** What a handler does. Effects are rows of bench.effect. */
export type Work = { readonly kind: 'nothing' } | { readonly kind: 'insert each' } | { readonly kind: 'insert batch' }

/** A consumer that runs. */
export interface Consumer {
  stop(): Promise<void>
}

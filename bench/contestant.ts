import type pg from 'pg'

/**
 * A queue under test, or a yardstick beside it. What it cannot do it leaves out, and is then not in the cells that need
 * it. Each runs in the best configuration that its own documentation gives, and says which.
 */
export interface Contestant extends Capabilities {
  /** As in `--only`. */
  readonly name: string
  /** For people, with the version that is installed. */
  readonly title: string
  /** What happens to a message in flight, and to its effects, when the process dies. */
  readonly guarantee: string
  /** Why it cannot run on this machine; undefined if it can. */
  missing?(): string | undefined

  /** The one cell that it is for. Default: all that it can answer. */
  readonly onlyIn?: string
  /** The name of a database of its own, where its tables would have the names of another's. */
  readonly database?: string
  /** Makes its tables, once per run. */
  install(url: string): Promise<void>
  /** What is to be different in the database while it is measured, and the way back. */
  readonly setUp?: { readonly sql: string; readonly undo: string }
  /** All its tables that hold messages, for TRUNCATE and VACUUM. */
  readonly tables: readonly string[]
  /** Puts messages in, on the server, as if they had been enqueued one by one. One transaction. */
  fill(client: pg.Client, spec: FillSpec): Promise<void>
  /** Whether messages can be filled in with keys, whose order it then keeps. */
  readonly keepsOrder?: true
  /** How many messages are not settled yet, read from its tables. */
  unsettled(client: pg.Client): Promise<number>
}

/** What a contestant can do. */
export interface Capabilities {
  /** Works off what is there. */
  readonly consumes?: Capability<(url: string, spec: ConsumeSpec) => Promise<Consumer>>
  /** The same for what cannot be embedded in this process: returns messages per second by its own clock. */
  readonly drains?: Capability<(url: string, spec: DrainSpec) => Promise<number>>
  /** Works off what is there, with no transaction open while a handler runs. */
  readonly leases?: Capability<(url: string, spec: LeaseSpec) => Promise<Consumer>>
  /** Waits for messages that come one by one. */
  readonly listens?: Capability<(url: string, spec: ListenSpec) => Promise<Consumer>>
  /** Enqueues in transactions of the application. */
  readonly enqueues?: Capability<(url: string) => Promise<Enqueuer>>
  /** Appends to a log that so many groups are to read, in transactions of the application. */
  readonly appends?: Capability<(url: string, groups: number) => Promise<Enqueuer>>
  /** Reads such a log for so many groups, each of which gets all of it. */
  readonly follows?: Capability<(url: string, spec: FollowSpec) => Promise<Consumer>>
  /** Waits on so many queues in which nothing happens; `leased`: with no transaction open while a handler runs, where it may choose. */
  readonly idles?: Capability<(url: string, queues: number, leased: boolean) => Promise<Consumer>>
}

/** Something that a contestant can do, and how it is set up for it, in words. */
export interface Capability<Run> {
  readonly configuration: string
  readonly run: Run
}

/** Payloads are {"n": 1}, {"n": 2}, … */
export interface FillSpec {
  readonly messages: number
  /** Messages beside them that fall due in a day. */
  readonly scheduled?: number
  /** How many keys they have in turn, each in order. Default: no keys. */
  readonly keys?: number
  /** How many bytes of text each payload has beside its number. */
  readonly bytes?: number
  /** Into a log that so many groups are to read, each with so many members, instead of a queue. */
  readonly log?: Pick<FollowSpec, 'groups' | 'inFlight'> & Partial<Pick<FollowSpec, 'batchSize'>>
}

export interface FollowSpec extends Pick<ConsumeSpec, 'batchSize' | 'inFlight' | 'onSettled'> {
  /** `inFlight` and `batchSize` are of each of them. `onSettled` counts an event once for each group. */
  readonly groups: number
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

export interface LeaseSpec extends Pick<ConsumeSpec, 'onSettled'> {
  /** The most messages per claim. */
  readonly batchSize: number
  /** The most messages in flight at the same time. */
  readonly inHand: number
  /** Handlers run side by side. Default: handlers that do nothing. */
  readonly handle?: ListenSpec['handle'] | undefined
  /** How long a lease lasts, where that can be chosen. Default: as it comes. */
  readonly leaseMs?: number | undefined
}

/** What a handler does. Effects are rows of bench.effect, one per message. */
export type Work = 'nothing' | 'insert each' | 'insert batch'

export interface DrainSpec extends Pick<ConsumeSpec, 'batchSize' | 'inFlight'> {
  readonly messages: number
}

export interface ListenSpec extends Omit<ConsumeSpec, 'work'> {
  /** How many handlers that wait run at the same time; batches are then as the contestant likes them. */
  readonly atOnce?: number | undefined
  readonly handle: (message: Payload) => void | Promise<void>
}

export interface Payload {
  readonly n: number
}

/** A consumer that runs. */
export interface Consumer {
  /** Ends and settles all messages in flight, and closes all connections. */
  stop(): Promise<void>
}

export interface Enqueuer {
  /** A writer with a connection of its own, as an application has for a request. */
  open(): Promise<Writer>
  stop(): Promise<void>
}

/** Each call is a transaction: BEGIN, the messages, COMMIT, each awaited. */
export interface Writer {
  /** @param beforeCommit is called when all is written and COMMIT is about to be sent. */
  enqueue(message: Payload, beforeCommit?: () => void): Promise<void>
  /** All in one statement, or as few as the library needs. */
  enqueueMany(messages: readonly Payload[]): Promise<void>
  close(): Promise<void>
}

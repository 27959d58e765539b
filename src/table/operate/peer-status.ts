import type { UnavailableCause } from '../../basics/errors/unavailable-cause.ts'
import { type Columns, date, duration, nullable, shape, text, word } from '../shape.ts'
import { type Execute, statement } from '../statement.ts'

/** Whether the relay, or the inbox, of a queue can do its work in one worker process. */
export interface PeerStatus {
  /** The queue that a relay publishes, or into which an inbox enqueues. */
  readonly queue: string
  /** The worker's id. */
  readonly workerId: string
  /** The worker's name. */
  readonly worker: string
  /** `unavailable`: a relay claims nothing until one message gets through, and an inbox receives or stores nothing. */
  readonly state: 'available' | 'unavailable'
  /** Since when, by the worker's clock. */
  readonly since: Date
  /** For how long, by the database's clock. */
  readonly forMs: number
  /** Whether that may pass by itself, or waits for a change by hand, as the last try has said. Null: it is available. */
  readonly cause: UnavailableCause | null
  /** Why it is unavailable. Null: it is available. */
  readonly error: string | null
  /** When it is tried next. Null: it is available. */
  readonly retryAt: Date | null
  /** The heartbeat that said so, or a later one. */
  readonly asOf: Date
}

/** Whether the relay of a queue, in one worker process, reaches its destination: a row of `sluice.relays`. */
export interface RelayStatus extends PeerStatus {
  /** The kind of its destination, such as `nats`. Null: the adapter has not said. */
  readonly destination: string | null
}

/** Whether the inbox of a queue, in one worker process, can receive and store: a row of `sluice.inboxes`. */
export interface InboxStatus extends PeerStatus {
  /** The kind of what it receives from, such as `nats`. Null: the adapter has not said. */
  readonly receiver: string | null
  /** Which side fails: the broker, or the database, in which it cannot store. Null: it is available. */
  readonly side: 'receiver' | 'database' | null
}

/** The relays of live workers, of all queues or of one, once they have tried to publish. */
export async function readRelays(execute: Execute, queue: string | null): Promise<readonly RelayStatus[]> {
  return (await execute(RELAYS, [queue])).map(RELAY.read)
}

/** The inboxes of live workers, of all queues or of one, once they have tried to connect. */
export async function readInboxes(execute: Execute, queue: string | null): Promise<readonly InboxStatus[]> {
  return (await execute(INBOXES, [queue])).map(INBOX.read)
}

const PEER: Columns<PeerStatus> = {
  queue: text(),
  workerId: text(),
  worker: text(),
  state: word(),
  since: date(),
  forMs: duration((of) => `clock_timestamp() - ${of}.since`),
  cause: nullable.word(),
  error: nullable.text(),
  retryAt: nullable.date(),
  asOf: date(),
}

const RELAY = shape<RelayStatus>({ ...PEER, destination: nullable.text() })
const INBOX = shape<InboxStatus>({ ...PEER, receiver: nullable.text(), side: nullable.word() })

const RELAYS = statement(
  'operate_relays',
  `
SELECT ${RELAY.columns('r')}
FROM sluice.relays r
WHERE $1::text IS NULL OR r.queue = $1::text
ORDER BY r.queue, r.worker_id`,
)

const INBOXES = statement(
  'operate_inboxes',
  `
SELECT ${INBOX.columns('r')}
FROM sluice.inboxes r
WHERE $1::text IS NULL OR r.queue = $1::text
ORDER BY r.queue, r.worker_id`,
)

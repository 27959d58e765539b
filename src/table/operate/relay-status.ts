import type { UnavailableCause } from '../../basics/unavailable-cause.ts'
import { date, duration, nullable, shape, text, word } from '../shape.ts'
import { type Execute, statement } from '../statement.ts'

/** Whether the relay of a queue, in one worker process, reaches its destination: a row of `sluice.relays`. */
export interface RelayStatus {
  /** The queue that it publishes. */
  readonly queue: string
  /** The worker's id. */
  readonly workerId: string
  /** The worker's name. */
  readonly worker: string
  /** The kind of its destination, such as `nats`. Null: the adapter has not said. */
  readonly destination: string | null
  /** `unavailable`: nothing is claimed until one message gets through. */
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

/** The relays of live workers, of all queues or of one, once they have tried to publish. */
export async function readRelays(execute: Execute, queue: string | null): Promise<readonly RelayStatus[]> {
  return (await execute(RELAYS, [queue])).map(RELAY.read)
}

const RELAY = shape<RelayStatus>({
  queue: text(),
  workerId: text(),
  worker: text(),
  destination: nullable.text(),
  state: word(),
  since: date(),
  forMs: duration((of) => `clock_timestamp() - ${of}.since`),
  cause: nullable.word(),
  error: nullable.text(),
  retryAt: nullable.date(),
  asOf: date(),
})

const RELAYS = statement(
  'operate_relays',
  `
SELECT ${RELAY.columns('r')}
FROM sluice.relays r
WHERE $1::text IS NULL OR r.queue = $1::text
ORDER BY r.queue, r.worker_id`,
)

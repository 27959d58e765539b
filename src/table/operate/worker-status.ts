import { bigint, bool, date, duration, nullable, number, shape, text, texts } from '../shape.ts'
import { type Execute, statement } from '../statement.ts'

/** One worker process, as it registered: a row of `sluice.workers`. */
export interface WorkerStatus {
  /** New at every start of a process. */
  readonly id: string
  /** As configured, by default host:pid. */
  readonly name: string
  /** The machine's host name. */
  readonly host: string
  /** The process id on that machine. */
  readonly pid: number
  /** The version of Sluice that it runs. */
  readonly version: string
  /** The queues that it consumes. */
  readonly queues: readonly string[]
  /** When it registered. */
  readonly startedAt: Date
  /** Its last heartbeat. */
  readonly seenAt: Date
  /** How long ago that was. */
  readonly seenAgoMs: number
  /** False if its connection is gone, or, behind a pooler, if it has sent no heartbeat for three minutes. */
  readonly alive: boolean
  /** Its connection is open, and it has sent no heartbeat for 90 s: the process hangs or is stopped. Never behind a pooler. */
  readonly stale: boolean
  /** How many messages it has in flight; in a list of one queue, of this queue. */
  readonly inFlight: number
}

/** One message in the hands of a worker or of a claim: a row of `sluice.in_flight`. */
export interface InFlightMessage {
  /** The name of its queue. */
  readonly queue: string
  /** The message. */
  readonly id: string
  /** Which try this is, from 1. */
  readonly attempt: number
  /** When its batch, or its claim, was claimed. */
  readonly claimedAt: Date
  /** How long ago that was. */
  readonly runningForMs: number
  /**
   * Messages of a worker with the same number were claimed together, and in transactional mode share a transaction. Null:
   * it is in a claim.
   */
  readonly batch: string | null
  /** The worker's id. Null: it is in a claim. */
  readonly workerId: string | null
  /** The worker's name. Null: it is in a claim. */
  readonly worker: string | null
  /** False if the worker is gone. Then the message is available again. Null: it is in a claim. */
  readonly workerAlive: boolean | null
  /** In leased mode and in a claim: when its lease ends if it is not renewed. Null: a transaction keeps it. */
  readonly leasedUntil: Date | null
  /** The claim that it is in. Null: a worker has it. */
  readonly claim: string | null
  /**
   * The position in its stream of an event that a group reads for the first time: it has no message, and its id is the
   * position, negative. Null: it is a message.
   */
  readonly position: number | null
}

/** The worker processes in the order in which they started, or only those that consume the given queue. */
export async function readWorkers(execute: Execute, queue: string | null): Promise<readonly WorkerStatus[]> {
  return (await execute(WORKERS, [queue])).map(WORKER.read)
}

/**
 * What workers and claims have in flight, in all queues or in one, the longest-running first. Reads every batch and claim.
 */
export async function readInFlight(
  execute: Execute,
  queue: string | null,
  limit: number,
): Promise<readonly InFlightMessage[]> {
  return (await execute(IN_FLIGHT, [queue, limit])).map(MESSAGE.read)
}

const WORKER = shape<WorkerStatus>({
  id: text(),
  name: text(),
  host: text(),
  pid: number(),
  version: text(),
  queues: texts(),
  startedAt: date(),
  seenAt: date(),
  seenAgoMs: duration((of) => `clock_timestamp() - ${of}.seen_at`),
  alive: bool(),
  stale: bool(),
  inFlight: number(),
})

const MESSAGE = shape<InFlightMessage>({
  queue: text(),
  id: bigint(),
  attempt: number(),
  claimedAt: date(),
  runningForMs: duration(),
  batch: nullable.bigint(),
  workerId: nullable.text(),
  worker: nullable.text(),
  workerAlive: nullable.bool(),
  leasedUntil: nullable.date(),
  claim: nullable.bigint(),
  position: nullable.number('event_position'),
})

const WORKERS = statement(
  'operate_workers',
  `
SELECT ${WORKER.columns('w')}
FROM (
  SELECT w.id, w.name, w.host, w.pid, w.version, w.queues, w.started_at, w.seen_at, w.alive, w.stale,
         CASE WHEN $1::text IS NULL THEN w.in_flight ELSE (
           SELECT count(*) FROM sluice.in_flight f WHERE f.worker_id = w.id AND f.queue = $1::text
         )::integer END AS in_flight
  FROM sluice.workers w
  WHERE $1::text IS NULL OR $1::text = ANY (w.queues)
  OFFSET 0
) w
ORDER BY w.id`,
)

const IN_FLIGHT = statement(
  'operate_in_flight',
  `
SELECT ${MESSAGE.columns('f')}
FROM sluice.in_flight f
WHERE $1::text IS NULL OR f.queue = $1::text
ORDER BY f.claimed_at, f.id
LIMIT $2::integer`,
)

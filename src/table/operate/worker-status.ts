import { booleanOf, type Execute, numberOf, statement, textOf, textOrNull, textsOf } from '../statement.ts'
import { dateOf, dateOrNull, microseconds } from './instants.ts'

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
  /** How many messages it has in hand. */
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
  const rows = await execute(WORKERS, [queue])
  return rows.map((row) => ({
    id: textOf(row, 'id'),
    name: textOf(row, 'name'),
    host: textOf(row, 'host'),
    pid: numberOf(row, 'pid'),
    version: textOf(row, 'version'),
    queues: textsOf(row, 'queues'),
    startedAt: dateOf(row, 'started_us'),
    seenAt: dateOf(row, 'seen_us'),
    seenAgoMs: Math.round(numberOf(row, 'seen_ago_ms')),
    alive: booleanOf(row, 'alive'),
    inFlight: numberOf(row, 'in_flight'),
  }))
}

/** What workers and claims have in hand, in all queues or in one, the longest-running first. Reads every batch and claim. */
export async function readInFlight(
  execute: Execute,
  queue: string | null,
  limit: number,
): Promise<readonly InFlightMessage[]> {
  const rows = await execute(IN_FLIGHT, [queue, limit])
  return rows.map((row) => ({
    queue: textOf(row, 'queue'),
    id: textOf(row, 'id'),
    attempt: numberOf(row, 'attempt'),
    claimedAt: dateOf(row, 'claimed_us'),
    runningForMs: Math.round(numberOf(row, 'running_for_ms')),
    batch: textOrNull(row, 'batch'),
    workerId: textOrNull(row, 'worker_id'),
    worker: textOrNull(row, 'worker'),
    workerAlive: row.worker_alive === null ? null : booleanOf(row, 'worker_alive'),
    leasedUntil: dateOrNull(row, 'leased_until_us'),
    claim: textOrNull(row, 'claim'),
    position: row.event_position === null ? null : numberOf(row, 'event_position'),
  }))
}

const WORKERS = statement(
  'operate_workers',
  `
SELECT w.id, w.name, w.host, w.pid, w.version, w.queues, w.alive, w.in_flight,
       ${microseconds('w.started_at')} AS started_us,
       ${microseconds('w.seen_at')} AS seen_us,
       (extract(epoch FROM clock_timestamp() - w.seen_at) * 1000.0) AS seen_ago_ms
FROM sluice.workers w
WHERE $1::text IS NULL OR $1::text = ANY (w.queues)
ORDER BY w.id`,
)

const IN_FLIGHT = statement(
  'operate_in_flight',
  `
SELECT f.queue, f.id::text AS id, f.attempt, f.batch::text AS batch, f.worker_id, f.worker, f.worker_alive, f.claim::text AS claim,
       f.event_position::text AS event_position,
       ${microseconds('f.claimed_at')} AS claimed_us,
       (extract(epoch FROM f.running_for) * 1000.0) AS running_for_ms, ${microseconds('f.leased_until')} AS leased_until_us
FROM sluice.in_flight f
WHERE $1::text IS NULL OR f.queue = $1::text
ORDER BY f.claimed_at, f.id
LIMIT $2::integer`,
)

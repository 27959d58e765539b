import { booleanOf, type Execute, numberOf, statement, textOf, textOrNull } from '../statement.ts'

/** The evidence about a message that has not been settled since. */
export interface Evidence {
  readonly messageId: string
  /** How many processes died or hung while they handled this message. */
  readonly crashes: number
  /** Whether it was, at least once, the only message in flight. If not, another one may be to blame. */
  readonly crashedAlone: boolean
  /** How many batches with this message lost their transaction, while the process and the server lived on. */
  readonly losses: number
  /** The last try that was lost while nothing else ran, if the server said why it ended the transaction. */
  readonly lostTry: LostTry | undefined
}

/** A try whose loss counts as an attempt, from 1, and what the server said. */
export interface LostTry {
  readonly attempt: number
  readonly error: string
}

/** The evidence about messages of a queue, by the primary key (queue, message_id, …). Most messages have none. */
export async function readEvidence(
  execute: Execute,
  queue: string,
  messageIds: readonly string[],
): Promise<readonly Evidence[]> {
  const rows = await execute(EVIDENCE, [queue, messageIds])
  return rows.map((row) => ({
    messageId: textOf(row, 'message_id'),
    crashes: numberOf(row, 'crashes'),
    crashedAlone: booleanOf(row, 'crashed_alone'),
    losses: numberOf(row, 'losses'),
    lostTry:
      row.lost_attempt === null
        ? undefined
        : { attempt: numberOf(row, 'lost_attempt'), error: textOrNull(row, 'lost_error') ?? '' },
  }))
}

/** Messages that a worker left in one batch without settling them. */
export interface LeftBatch {
  readonly workerId: number
  readonly batchId: number
  readonly queue: string
  readonly messageIds: readonly string[]
  readonly alone: boolean
  /** Only for a loss that counts as an attempt. */
  readonly lostTry?: LostTry | undefined
}

/**
 * Writes evidence about messages whose handler hung until the server ended the batch's transaction, or whose
 * transaction was lost while the process and the server lived on.
 */
export async function recordEvidence(execute: Execute, kind: 'hung' | 'lost', left: LeftBatch): Promise<void> {
  const { lostTry } = left
  await execute(RECORD, [
    left.workerId,
    left.batchId,
    left.queue,
    left.messageIds,
    left.alone,
    kind,
    lostTry?.attempt ?? null,
    lostTry?.error ?? null,
  ])
}

/** Deletes evidence about messages that are gone, which was written while their last batch ran. */
export async function forgetGone(execute: Execute): Promise<void> {
  await execute(FORGET_GONE, [])
}

const EVIDENCE = statement(
  'crash_evidence',
  `
SELECT c.message_id::text AS message_id,
       count(*) FILTER (WHERE c.kind <> 'lost')::integer AS crashes,
       coalesce(bool_or(c.alone) FILTER (WHERE c.kind <> 'lost'), false) AS crashed_alone,
       count(*) FILTER (WHERE c.kind = 'lost')::integer AS losses,
       max(c.attempt) AS lost_attempt,
       (pg_catalog.array_agg(c.error ORDER BY c.attempt DESC) FILTER (WHERE c.attempt IS NOT NULL))[1] AS lost_error
FROM sluice.crash c
WHERE c.queue = $1::text AND c.message_id = ANY ($2::bigint[])
GROUP BY c.message_id`,
)

// A message that is gone was settled after all; only the answer was lost. A number below zero is the position of an
// event, with a minus; evidence about one that was settled after all is forgotten when it is old.
const RECORD = statement(
  'crash_record',
  `
SELECT sluice_private.record_crash(
  $3::text, given.id, w.id, $2::bigint, $6::text, w.name, $5::boolean, $7::integer, $8::text
)
FROM sluice.worker w CROSS JOIN pg_catalog.unnest($4::bigint[]) AS given (id)
WHERE w.id = $1::integer
  AND (given.id < 0 OR EXISTS (SELECT FROM sluice.message m WHERE m.queue = $3::text AND m.id = given.id))`,
)

const FORGET_GONE = statement(
  'crash_forget_gone',
  `
DELETE FROM sluice.crash c
WHERE CASE WHEN c.message_id < 0 THEN c.crashed_at < clock_timestamp() - interval '7 days'
           ELSE NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = c.queue AND m.id = c.message_id) END`,
)

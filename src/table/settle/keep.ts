/** What the history has of messages that have succeeded, and their rows have not: one element for each of them. */
export interface Kept {
  /** The name of the worker. */
  readonly worker: string
  /** Which tries have succeeded, from 1. */
  readonly attempts: readonly number[]
  /** When they were claimed, in microseconds since 1970 by the database's clock. */
  readonly claimedUs: readonly number[]
}

/** The parameters of {@link keeping}. */
export function keptParams({ worker, attempts, claimedUs }: Kept): readonly unknown[] {
  return [worker, attempts, claimedUs.map(Math.floor)]
}

/**
 * An INSERT of the removed rows `gone` into the history, for a statement with their ids as $2 and {@link keptParams} as
 * $3 to $5. The partition is that of now, the same for all rows, and only that one is opened and locked: what other
 * partitions there are costs nothing. Each row has two index entries. It returns a row for each, to be counted, and nothing of
 * it: a worker may not read the history.
 */
export function keeping(gone: string): string {
  return `
  INSERT INTO sluice.completed_message
    (queue, id, completed_at, claimed_at, worker, priority, ordering_key, type, schema_version, payload, headers, attempt,
     max_attempts, enqueued_at, failed_at, last_error, retry_policy, tenant, dedupe_key)
  SELECT g.queue, g.id, clock.now, timestamptz 'epoch' + k.claimed_us::double precision * interval '1 microsecond', $3::text,
         g.priority, g.ordering_key, g.type, g.schema_version, g.payload, g.headers, k.attempt,
         g.max_attempts, g.enqueued_at, g.failed_at, g.last_error, g.retry_policy, g.tenant, g.dedupe_key
  FROM ${gone} g
  JOIN unnest($2::bigint[], $4::integer[], $5::bigint[]) AS k (id, attempt, claimed_us) ON k.id = g.id
  CROSS JOIN (SELECT clock_timestamp() AS now OFFSET 0) clock
  RETURNING 1 AS one`
}

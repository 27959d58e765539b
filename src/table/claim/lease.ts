/** What a leased claim writes into the rows that it takes. */
export interface Lease {
  /** The worker's number shifted left by 32 bits, and the number of its batch: a bigint as text. */
  readonly lease: string
  /** How long it lasts. */
  readonly ms: number
  readonly serverVersion: number
}

/** The numbers that a lease is made of are the key of a row of sluice.batch_record. */
export function leaseOf(workerId: number, batchId: number): string {
  return String((BigInt(workerId) << 32n) | BigInt(batchId))
}

/** The parameters that {@link leasing} needs. */
export function leaseParams(lease: Lease | undefined): readonly unknown[] {
  return lease === undefined ? [] : [lease.lease, lease.ms]
}

/**
 * Turns the rows that a claim has locked, `picked`, into leased ones, and records the batch: one statement, so that the
 * record is there before any handler runs. If a row was changed since the statement's snapshot, the locked version is
 * another one: its id leads to it, and where only its ctid is looked at, {@link REQUIRE_LEASED} fails the claim.
 *
 * A lease that has run out is evidence, which {@link REQUIRE_LEASED} has written.
 *
 * @param at the number of the parameter with the lease; its length in milliseconds is the next one
 */
export function leasing(at: number, found: (ids: string) => string): string {
  return `, leased AS (
  UPDATE sluice.message m
  SET due_at = (SELECT c.now FROM clock c) + coalesce(m.lease_ms::double precision, $${at + 1}::double precision) * interval '1 millisecond',
      lease = $${at}::bigint
  WHERE ${found('(SELECT pg_catalog.array_agg(p.id) FROM picked p)')}
  RETURNING m.id
), recorded AS (
  INSERT INTO sluice.batch_record (worker_id, id, queue, message_ids, attempts, leased)
  SELECT ($${at}::bigint >> 32)::integer, $${at}::bigint & 4294967295, $1::text, pg_catalog.array_agg(p.id), pg_catalog.array_agg(p.attempt), true
  FROM picked p WHERE p.id IS NOT NULL HAVING count(*) > 0
), expired AS (
  SELECT sluice_private.record_hung($1::text, p.id, p.lease, sluice_private.has_one_message((p.lease >> 32)::integer))
  FROM picked p WHERE p.lease > 0
)`
}

/** Columns of the claim's result: how many leases had run out; and an error if a row that was picked was not leased. */
export const REQUIRE_LEASED = `,
       (SELECT count(*) FROM expired) AS run_out,
       (SELECT sluice_private.require_settled('message', $1::text, ARRAY(SELECT p.id FROM picked p WHERE p.id IS NOT NULL), ARRAY(SELECT l.id FROM leased l))
        FROM (SELECT count(*) AS n FROM leased) l
        WHERE l.n < (SELECT count(*) FROM picked p WHERE p.id IS NOT NULL)) AS unleased`

import { requiringRows } from '../rows-missing.ts'
import { type Execute, statement } from '../statement.ts'

/** A key that waits for messages until an instant. */
export interface HeldKey {
  readonly slot: number
  readonly orderingKey: string
  /** The first of them. */
  readonly messageId: string
  /** @default none */
  readonly others?: readonly string[]
  readonly untilUs: number
}

/** Writes into slot rows, which the batch has locked, which keys are held, and removes entries whose time has passed. */
export async function holdKeys(
  execute: Execute,
  queue: string,
  keys: readonly HeldKey[],
  nowUs: number,
): Promise<void> {
  const sent = execute(HOLD, [
    queue,
    keys.map((key) => key.slot),
    keys.map((key) => key.orderingKey),
    keys.map((key) => key.messageId),
    keys.map((key) => key.untilUs),
    nowUs,
    keys.map((key) => `[${(key.others ?? []).join()}]`),
  ])
  await requiringRows(sent)
}

/**
 * Messages are due again with the COMMIT: wakes those who sleep, as an enqueue does. This process may be about to end, or busy
 * with others.
 */
export async function wakeSleepers(execute: Execute, queue: string): Promise<void> {
  await execute(WAKE, [queue])
}

/** Deletes the evidence about messages that have been settled. */
export async function forgetEvidence(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  await execute(FORGET, [queue, ids])
}

const HOLD = statement(
  'hold',
  `
WITH fresh AS (
  SELECT k.slot,
         pg_catalog.jsonb_object_agg(
           k.ordering_key, pg_catalog.jsonb_build_array(k.message_id, k.until_us) || k.others::jsonb) AS held
  FROM unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[], $7::text[])
    AS k (slot, ordering_key, message_id, until_us, others)
  GROUP BY k.slot
), touched AS (
  UPDATE sluice.slot s
  SET held = (
    SELECT coalesce(pg_catalog.jsonb_object_agg(old.key, old.value), '{}') FROM jsonb_each(s.held) old
    WHERE (old.value ->> 1)::bigint > $6::bigint
  ) || fresh.held
  FROM fresh
  WHERE s.queue = $1::text AND s.slot = fresh.slot
  RETURNING s.slot
)
SELECT sluice_private.require_settled(
  'slot', $1::text, ARRAY(SELECT f.slot::bigint FROM fresh f), ARRAY(SELECT t.slot::bigint FROM touched t)
)
FROM (SELECT count(*) AS n FROM touched) t
WHERE t.n OPERATOR(pg_catalog.<) (SELECT count(*) FROM fresh)`,
)

const WAKE = statement('settle_wake', 'SELECT sluice_private.wake($1::text)')

const FORGET = statement(
  'crash_forget',
  'DELETE FROM sluice.crash c WHERE c.queue = $1::text AND c.message_id = ANY ($2::bigint[])',
)

import type { Twin } from './twins.ts'

export const NOBODY_RESCUES = {
  name: 'nobody-rescues',
  title: 'a reaper that lets the leases of dead workers run out',
  edits: [
    { file: 'table/worker/reap.ts', from: 'WHERE m.ctid = ANY (ARRAY(', to: 'WHERE false AND m.ctid = ANY (ARRAY(' },
  ],
  caught: ['stuck'],
} as const satisfies Twin

export const TRANSACTION_WITHOUT_LEASE = {
  name: 'transaction-without-lease',
  title: 'a handler transaction that does not check whether its message still has the lease',
  edits: [
    {
      file: 'modes/leased/leased-attempt.ts',
      from: 'this.#assertAll(await lockLeased(',
      to: 'void (await lockLeased(',
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

/** Only this one: an acknowledgement without it would remove the message that others handle, and hide the rest. */
export const POSTPONED_WITHOUT_LEASE = {
  name: 'postponed-without-lease',
  title: 'a settlement that does not compare the lease when it makes a message due later',
  edits: [
    {
      file: 'table/settle/settle.ts',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source's own.
      from: 'WHERE ${fence.rows} AND m.id = p.id',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source's own.
      to: "WHERE m.queue = $1::text AND ${fence.either({ locked: 'true', leased: '$8::bigint[] IS NOT NULL' })} AND m.id = p.id",
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const SETTLEMENT_ENQUEUES_AGAIN = {
  name: 'settlement-enqueues-again',
  title: 'a worker that takes a settlement without an answer for a rollback, and enqueues the messages again',
  edits: [
    {
      file: 'modes/leased/settle/settler.ts',
      from: '      if (isRefusal(because)) return this.#refused(outcomes, because)\n',
      to: `      const text = "INSERT INTO sluice.message (queue, id, payload) SELECT 'load', unnest($1::bigint[]), '{}' ON CONFLICT DO NOTHING"
      await this.#runtime.control.execute({ name: 'again', text }, [outcomes.map(({ id }) => id)])
`,
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const NOT_RENEWED = {
  name: 'not-renewed',
  title: 'leases that are not renewed',
  edits: [{ file: 'modes/leased/settle/renewals.ts', from: 'if (old.length > 0) this.#renew(old)', to: '' }],
  caught: ['attempts wrong'],
} as const satisfies Twin

export const RENEWED_BY_DATE = {
  name: 'renewed-by-date',
  title: 'leases that are renewed by the clock of the machine',
  edits: [
    {
      file: 'modes/leased/settle/renewals.ts',
      from: 'const nowMs = performance.now()',
      to: 'const nowMs = Date.now() - performance.timeOrigin',
    },
  ],
  caught: ['attempts wrong'],
} as const satisfies Twin

export const REAPER_TAKES_ALL = {
  name: 'reaper-takes-all',
  title: "a reaper that takes every message of a dead worker's records, even those that others have leased since",
  edits: [{ file: 'table/worker/reap.ts', from: 'r.lease = l.lease LIMIT 1', to: 'r.lease > 0 LIMIT 1' }],
  caught: ['repeated'],
} as const satisfies Twin

export const PASSES_CLOSED_KEYS = {
  name: 'passes-closed-keys',
  title: 'claims that do not check whether a lease has closed a key',
  edits: [
    {
      file: 'table/claim/locked-slot.ts',
      from: "'sluice_private.leased_keys($1::text, locked.slot, candidate.floor_id)'",
      to: `"'{}'::jsonb"`,
    },
  ],
  caught: ['out of order'],
} as const satisfies Twin

export const EXPIRES_IN_HAND = {
  name: 'expires-in-hand',
  title: 'maintenance that removes all expired messages, even those in flight',
  sql: `
CREATE OR REPLACE FUNCTION sluice.remove_expired(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  gone integer;
BEGIN
  DELETE FROM sluice.message m WHERE m.expires_at <= clock_timestamp();
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN gone;
END
$$`,
  caught: ['lost'],
} as const satisfies Twin

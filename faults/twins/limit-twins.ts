import type { Twin } from './twins.ts'

export const PERMITS_UNLOCKED = {
  name: 'permits-unlocked',
  title: 'permits that are counted but not locked',
  sql: `
CREATE OR REPLACE FUNCTION sluice_private.lock_permits(queue text, tenant text, most integer) RETURNS integer
LANGUAGE sql AS $$
  SELECT least($3, count(*))::integer FROM sluice.permit p WHERE p.queue = $1 AND p.tenant = $2
$$`,
  caught: ['over limit'],
} as const satisfies Twin

export const PERMITS_WITHOUT_LEASE = {
  name: 'permits-without-lease',
  title: 'permits that are free as soon as the claim has committed',
  sql: `
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('sluice_private.lock_permits'::regproc), 'AND p.message_id IS NULL', '');
END
$$`,
  caught: ['over limit'],
} as const satisfies Twin

export const BUCKET_UNWRITTEN = {
  name: 'bucket-unwritten',
  title: 'a bucket of its own for each process, filled by its own clock',
  edits: [
    {
      file: 'claim/limiter.ts',
      from: 'await prepareClaim(control.execute, queue, most, from, rotation.from)',
      to: '{ ...(await prepareClaim(control.execute, queue, most, from)), granted: Date.now() > 0 ? most : 0 }',
    },
  ],
  caught: ['over rate'],
} as const satisfies Twin

export const FIRST_TENANT_FIRST = {
  name: 'first-tenant-first',
  title: 'claims that all begin with the first tenant',
  edits: [
    {
      file: 'claim/limiter.ts',
      from: 'this.#turn = turn ?? this.#turn',
      to: "this.#turn = { turn: '', apart: turn?.apart === true }",
    },
  ],
  caught: ['starved'],
} as const satisfies Twin

export const TENANTS_WITHOUT_LEASE = {
  name: 'tenants-without-lease',
  title: 'permits of tenants that are free as soon as the claim has committed',
  sql: `
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('sluice_private.lease_allowed'::regproc), 'settings.tenant_concurrency IS NOT NULL', 'false');
END
$$`,
  caught: ['over limit'],
} as const satisfies Twin

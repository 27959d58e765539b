import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { PASSED_FOR_EVER } from '../twins/twins.ts'

const BACKLOG = 100_000
/** For the twin: its worker walks it in four claims, so it has passed the rows again long before the hold ends. */
const TWIN_BACKLOG = 20_000
/** Of the backlog, one message in so many stays and is handled in the end: to handle all takes minutes. */
const KEPT_EVERY = 1_000
/** How many messages of two other keys of the same slot come behind the backlog. */
const BEHIND = 20
/** The place in its key's order of what is enqueued last. */
const LAST_PLACE = 1_000_000

/**
 * Messages of the same slot wait until a new process has gone through the backlog, 5,000 rows a claim, and it claims between
 * batches of others: three to eight seconds on two busy cores, eighteen beside six more processes. What is in other slots
 * or has no key waits less than one.
 */
const RECOVERY_MS = 30_000
/** From before the first fault until long after what is not held must have been handled. */
const HELD_MS = 20_000
/** In leased mode each message of the slot takes a claim of its own. Not held any more, the backlog would go first. */
const LEASED = { recoveryMs: 60_000, heldMs: 45_000 } as const
/** The twin shows only if its worker has passed the rows again, after the last fault and before the hold ends. */
const TWIN_HELD_MS = 60_000
/** Each of these questions reads the ledger of the backlog, or walks over its dead rows. */
const EVERY_MS = 200
/** A second key of the slot is held again and again, until shortly after the last fault. */
const RETRIED = { failures: 4, afterMs: 1_500 } as const

/** What a key is held for must not be felt by any other key, and its own order must survive. */
export const heldKey = scenario({
  name: 'held-key',
  title: `${BACKLOG.toLocaleString('en')} messages behind one held key, while workers are killed and batches cut`,
  recoveryMs: RECOVERY_MS,
  injections: { quick: 1, full: 3 },
  costsAttempts: true,
  otherwise: { recoveryMs: LEASED.recoveryMs },
  twin: PASSED_FOR_EVER,
  async inject(stage, at) {
    const { key, otherKey } = await enqueueBacklog(stage, at)
    const isHeld = async () => {
      const [row] = await stage.sql(
        'SELECT attempt FROM sluice.message WHERE queue = $1 AND ordering_key = $2 ORDER BY id LIMIT 1',
        [stage.queue, key],
      )
      return Number(row?.attempt) > 0
    }
    await until(isHeld, 'the key to be held', 20_000)
    await stage.flows()
    const victim = stage.victim()
    await stage.fault('killed a worker beside a held key', async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
      await victim.actor.ended
    })
    await stage.replace(victim)
    await stage.flows()
    await stage.fault('cut all batches beside a held key', () => stage.sql(CUT_BATCHES))
    // Whoever handles it has read the backlog again, which is what the twin needs.
    const behind = await enqueueBehind(stage, key, otherKey)
    await stage.handled(behind, stage.recoveryMs).catch(() => undefined)
    const caughtUp = until(() => stage.caughtUp(), 'all that is not held to be handled', stage.recoveryMs, EVERY_MS)
    await caughtUp.catch(() => undefined)
    await stage.sql(FORGET_BACKLOG, [stage.queue, key])
    await until(() => isEmpty(stage, key), 'the key to be free and handled', heldMs(stage) + stage.recoveryMs, EVERY_MS)
  },
})

/** Returns the key that is held for long, and one of its slot that nothing holds. */
async function enqueueBacklog(stage: Stage, at: number): Promise<{ key: string; otherKey: string }> {
  const slot = stage.random.below(256)
  const rows = await stage.sql(KEYS_OF_SLOT, [`held.${at}.`, slot])
  const keys = rows.map(({ key }) => String(key))
  const { failures, afterMs } = RETRIED
  const backlog = stage.broken ? TWIN_BACKLOG : BACKLOG
  await stage.sql(ENQUEUE, [stage.queue, keys, backlog, BEHIND, KEPT_EVERY, heldMs(stage), failures, afterMs])
  return { key: keys[0] ?? '', otherKey: keys[2] ?? '' }
}

/** Enqueues one more message that has nothing to wait for, behind all others of its slot. Returns its id. */
async function enqueueBehind(stage: Stage, key: string, otherKey: string): Promise<string> {
  const [row] = await stage.sql(ENQUEUE_BEHIND, [stage.queue, otherKey, LAST_PLACE, `backlog of ${key}`])
  return String(row?.message_id)
}

function heldMs({ broken, recoveryMs }: Stage): number {
  if (broken) return TWIN_HELD_MS
  return recoveryMs === LEASED.recoveryMs ? LEASED.heldMs : HELD_MS
}

async function isEmpty(stage: Stage, key: string): Promise<boolean> {
  const [row] = await stage.sql(
    'SELECT NOT EXISTS (SELECT FROM sluice.message WHERE queue = $1 AND ordering_key = $2) AS empty',
    [stage.queue, key],
  )
  return row?.empty === true
}

const KEYS_OF_SLOT = `
SELECT named.key FROM (SELECT $1::text || n AS key FROM generate_series(1, 20000) n) named
WHERE pg_catalog.hashtextextended(named.key COLLATE "C", 0) & 255 = $2::integer LIMIT 3`

/**
 * The head of the held key, which waits long for its retry; that of the retried one; the backlog behind the first; and
 * behind it the rest of the second key, and a third that has nothing to wait for. Only the third is to be in time ('ack').
 */
const ENQUEUE = `
WITH planned AS (
  SELECT n, n <= 2 OR n > $3::integer + 2 OR n % $5::integer = 0 AS kept,
         CASE WHEN n = 2 THEN 2 WHEN n <= $3::integer + 2 THEN 1 ELSE 2 + n % 2 END AS key,
         CASE WHEN n <= $3::integer + 2 OR n % 2 = 0 THEN 'fail' ELSE 'ack' END AS fate,
         CASE n WHEN 1 THEN 1 WHEN 2 THEN $7::integer ELSE 0 END AS failures,
         CASE n WHEN 1 THEN $6::integer WHEN 2 THEN $8::integer ELSE 0 END AS after_ms
  FROM generate_series(1, $3::integer + 2 + $4::integer * 2) n
), message AS (
  INSERT INTO sluice.message (queue, ordering_key, payload)
  SELECT $1::text, ($2::text[])[p.key],
         jsonb_build_object('fate', p.fate, 'failures', p.failures, 'afterMs', p.after_ms, 'place', p.n, 'kept', p.kept)
  FROM planned p ORDER BY p.n
  RETURNING id, ordering_key, payload
)
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures)
SELECT m.id, 'backlog of ' || ($2::text[])[1], m.ordering_key, (m.payload ->> 'place')::bigint, m.payload ->> 'fate', (m.payload ->> 'failures')::integer
FROM message m`

const ENQUEUE_BEHIND = `
WITH message AS (
  INSERT INTO sluice.message (queue, ordering_key, payload)
  VALUES ($1, $2, jsonb_build_object('fate', 'ack', 'failures', 0, 'afterMs', 0, 'place', $3::bigint, 'kept', true))
  RETURNING id, ordering_key
)
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures)
SELECT id, $4, ordering_key, $3, 'ack', 0 FROM message RETURNING message_id`

const FORGET_BACKLOG = `
WITH forgotten AS (
  DELETE FROM sluice.message
  WHERE queue = $1 AND ordering_key = $2 AND NOT (payload ->> 'kept')::boolean AND coalesce(lease, 0) = 0 RETURNING id
)
DELETE FROM ledger.enqueued WHERE message_id IN (SELECT id FROM forgotten)`

const CUT_BATCHES = `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sluice'`

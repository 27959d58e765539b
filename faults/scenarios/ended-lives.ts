import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { EXPIRED_IS_HANDED_OUT } from '../twins/life-twins.ts'

/** How many messages are to be cancelled at each injection. */
const CANCELLED = 20

/** How many have expired when they are enqueued. */
const EXPIRED = 10

export const endedLives = scenario({
  name: 'ended-lives',
  title: 'messages that are cancelled while workers claim and die, and messages that have expired',
  otherwise: { twin: EXPIRED_IS_HANDED_OUT },
  recoveryMs: 10_000,
  injections: { quick: 2, full: 5 },
  costsAttempts: true,
  flow: 5,
  workers: { count: 3 },
  twin: EXPIRED_IS_HANDED_OUT,
  async inject(stage, at) {
    const key = at % 2 === 0 ? `ended.${at}` : null
    await stage.sql(ENQUEUE_EXPIRED, [stage.queue, `expired.${at}`, EXPIRED])
    const ids = await stage.enqueueAll(
      Array.from({ length: CANCELLED }, () => FOLLOWER),
      key,
    )
    const victim = stage.victim()
    await Promise.all([
      cancelAll(stage, ids),
      stage.fault('worker killed', () => {
        victim.actor.kill()
      }),
    ])
    await stage.replace(victim)
  },
})

/** Not to be in time: most are cancelled. */
const FOLLOWER = { fate: 'fail', failures: 0 } as const

/** What is written down is in the transaction that cancels: both hold, or neither. */
async function cancelAll(stage: Stage, ids: readonly string[]): Promise<void> {
  for (const id of ids.toReversed()) {
    await stage.sql(
      `INSERT INTO ledger.ended (message_id, how)
       SELECT $2::bigint, c.result FROM sluice.cancel($1::text, $2::bigint) c WHERE c.result <> 'nothing'`,
      [stage.queue, id],
    )
  }
}

const ENQUEUE_EXPIRED = `
WITH message AS (
  INSERT INTO sluice.message (queue, payload, expires_at)
  SELECT $1::text, '{"fate": "fail", "failures": 0}', pg_catalog.clock_timestamp() FROM generate_series(1, $3::integer)
  RETURNING id
), ended AS (
  INSERT INTO ledger.ended (message_id, how) SELECT m.id, 'expired' FROM message m
)
INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures)
SELECT m.id, $2::text, m.id, 'fail', 0 FROM message m`

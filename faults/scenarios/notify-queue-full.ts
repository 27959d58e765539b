import pg from 'pg'
import { type OwnServer, ownServer } from '../environment/own-server.ts'
import { connect } from '../run/environment.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

/** The smallest queue there is: 64 pages of 8 KiB, and a notification of this length takes one. */
const SETTINGS = { max_notify_queue_pages: 64 }
const LENGTH = 7_900

/**
 * Notifications of a whole server share one queue, and a session that listens and then sits in a transaction keeps all
 * that came since. When it is full, every transaction that notifies fails at its COMMIT.
 */
export const notifyQueueFull = scenario<OwnServer>({
  name: 'notify-queue-full',
  title: "the server's queue of notifications is full, because another session listens in an open transaction",
  recoveryMs: 3_000,
  injections: { quick: 2, full: 10 },
  otherwise: { injections: { quick: 1, full: 10 } },
  environment: () => ownServer(SETTINGS),
  twin: {
    name: 'notifies-a-full-queue',
    title: 'an enqueue that notifies without checking for sleepers or for room in the queue of notifications',
    sql: `
DROP TRIGGER message_wake ON sluice.message;
CREATE TRIGGER message_wake AFTER INSERT ON sluice.message FOR EACH ROW EXECUTE FUNCTION sluice_private.wake_inserted();
CREATE OR REPLACE FUNCTION sluice_private.wake_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_notify('sluice', NEW.queue);
  RETURN NULL;
END
$$`,
    caught: ['enqueue refused'],
  },
  async inject(stage) {
    const listener = await connect(stage.environment.url)
    const others = await connect(stage.environment.url)
    await listener.query('LISTEN flood')
    await listener.query('BEGIN')
    await fill(others, 0.5)
    const [{ now } = {}] = await stage.sql('SELECT pg_catalog.clock_timestamp()::text AS now')
    // What had room while it ran may have none at its COMMIT.
    await until(() => haveEnded(stage, now), 'the transactions that saw room to end', 5_000)
    await stage.fault('no room for notifications', async () => {
      await fill(others, 1)
      await stage.flows(30, 10_000)
      await listener.query('ROLLBACK')
    })
    for (const client of [listener, others]) await client.end()
  },
})

/** Whether the producer's transactions of that time are over. */
async function haveEnded(stage: Stage, then: unknown): Promise<boolean> {
  const open = `SELECT FROM pg_stat_activity WHERE application_name = 'producer' AND xact_start <= $1::timestamptz`
  return (await stage.sql(open, [then])).length === 0
}

/** Resolves when the queue is so full, 1: when there is no room for one more. */
async function fill(client: pg.Client, share: number): Promise<void> {
  const full = 'SELECT FROM pg_notification_queue_usage() AS usage WHERE usage >= $1'
  try {
    while ((await client.query(full, [share])).rows.length === 0) {
      await client.query(`SELECT pg_notify('flood', repeat('x', $1))`, [LENGTH])
    }
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === PROGRAM_LIMIT_EXCEEDED)) throw error
  }
}

const PROGRAM_LIMIT_EXCEEDED = '54000'

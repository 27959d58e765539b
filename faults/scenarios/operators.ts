import pg from 'pg'
import { createSluice, type Sluice } from '../../src/index.ts'
import { TcpProxy } from '../environment/tcp-proxy.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { NOTES_WHAT_CHANGES_NOTHING } from '../twins/operation-twins.ts'
import { saysCommitted } from './commit-unanswered.ts'
import { commits, cutBefore } from './kill-at-wire.ts'

/** Nobody consumes it: what changes there is an operator's doing. */
const QUEUE = 'operated'

/** Triggers write down what operators have done. An operator who was not told tries again, which may find nothing to do. */
export const operators = scenario({
  name: 'operators',
  title:
    "an operator's connection breaks before the COMMIT of an action, or before the answer, in turn, and the operator tries again",
  recoveryMs: 5_000,
  injections: { quick: 1, full: 10 },
  load: { lanes: 1 },
  otherwise: { inapplicable: 'what operators do is noted in the same way for both modes: see the other table' },
  twin: NOTES_WHAT_CHANGES_NOTHING,
  prepare: async (stage) => void (await stage.sql(BOOK_ACTS)),
  async inject(stage, at) {
    const network = await TcpProxy.start(stage.environment.url)
    const sluice = createSluice({ connection: network.url, log: false })
    try {
      for (const [nth, act] of ACTS.entries()) {
        const made = await makeMessages(stage)
        const lost = (at + nth) % 2 === 0 ? 'answer' : 'COMMIT'
        await stage.fault(`${lost} of an action lost`, () =>
          loseOne(network, sluice, lost, (by) => act(by, made, undefined)),
        )
        // Again, and once more in a transaction of the operator's own.
        await act(sluice, made, undefined)
        await inTransaction(stage, (tx) => act(sluice, made, tx))
      }
    } finally {
      await sluice.stop()
      await network.stop()
    }
  },
})

/** A message of the queue that waits for long, and a dead letter. */
interface Made {
  readonly id: string
  readonly deadId: string
}

type Act = (sluice: Sluice, made: Made, tx: pg.ClientBase | undefined) => Promise<unknown>

const ACTS: readonly Act[] = [
  (sluice, { id }, tx) => sluice.operate.queues.pause(QUEUE, { reason: id, tx }),
  (sluice, _, tx) => sluice.operate.queues.resume(QUEUE, { tx }),
  (sluice, { id }, tx) => sluice.operate.messages.runNow(QUEUE, id, { tx }),
  (sluice, { id }, tx) => sluice.operate.messages.cancel(QUEUE, id, { tx }),
  (sluice, { deadId }, tx) => sluice.operate.deadLetters.redrive({ queue: QUEUE, ids: [deadId] }, { tx }),
]

async function loseOne(
  network: TcpProxy,
  sluice: Sluice,
  lost: 'COMMIT' | 'answer',
  act: (sluice: Sluice) => Promise<unknown>,
): Promise<void> {
  const [, told] = await Promise.all([
    cutBefore(network, (message, { from }) =>
      lost === 'COMMIT' ? from === 'client' && commits(message) : from === 'server' && saysCommitted(message),
    ),
    act(sluice).then(
      () => 'success',
      () => 'failure',
    ),
  ])
  if (told === 'success') throw new Error('An operator whose COMMIT or answer was lost was told that it has succeeded')
}

/** Some roll back, and then nothing of the action is there. */
async function inTransaction(stage: Stage, act: (tx: pg.ClientBase) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: stage.environment.url })
  await client.connect()
  try {
    await client.query('BEGIN')
    await act(client)
    await client.query(stage.random.chance(0.3) ? 'ROLLBACK' : 'COMMIT')
  } finally {
    await client.end()
  }
}

async function makeMessages(stage: Stage): Promise<Made> {
  const [row] = await stage.sql(MAKE, [QUEUE])
  return { id: String(row?.id), deadId: String(row?.dead_id) }
}

/** In the books they are messages that die: nobody handles them. */
const MAKE = `
WITH message AS (
  INSERT INTO sluice.message (queue, payload, due_at) VALUES ($1, '{}', pg_catalog.now() + interval '1 day') RETURNING id
), dead AS (
  INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
  VALUES ($1, nextval(pg_get_serial_sequence('sluice.message', 'id')), 5, 1, '{}', '{}', 2, 'failed', pg_catalog.now())
  RETURNING id
), booked AS (
  INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures)
  SELECT made.id, 'operated.' || made.id, made.id, 'die', 0 FROM (SELECT id FROM message UNION ALL SELECT id FROM dead) made
)
SELECT m.id, d.id AS dead_id FROM message m, dead d`

const BOOK_ACTS = `
CREATE FUNCTION ledger.book_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'message' AND TG_OP = 'DELETE' THEN
    INSERT INTO ledger.ended (message_id, how) VALUES (OLD.id, 'cancelled');
  END IF;
  INSERT INTO ledger.act (queue, action, message_id) VALUES ('${QUEUE}', CASE
    WHEN TG_TABLE_NAME = 'dead_letter' THEN 'dead.redrive'
    WHEN TG_TABLE_NAME = 'message' THEN CASE TG_OP WHEN 'DELETE' THEN 'message.cancel' ELSE 'message.run_now' END
    WHEN TG_OP = 'DELETE' OR to_jsonb(NEW) ->> 'paused_at' IS NULL THEN 'queue.resume'
    ELSE 'queue.pause' END, (to_jsonb(OLD) ->> 'id')::bigint);
  RETURN NULL;
END
$$;
CREATE TRIGGER books_change AFTER UPDATE ON sluice.queue FOR EACH ROW
WHEN (OLD.queue = '${QUEUE}' AND (OLD.paused_at, OLD.pause_reason) IS DISTINCT FROM (NEW.paused_at, NEW.pause_reason))
EXECUTE FUNCTION ledger.book_act();
CREATE TRIGGER books_resume AFTER DELETE ON sluice.queue FOR EACH ROW
WHEN (OLD.queue = '${QUEUE}' AND OLD.paused_at IS NOT NULL) EXECUTE FUNCTION ledger.book_act();
CREATE TRIGGER books_cancel AFTER DELETE ON sluice.message FOR EACH ROW WHEN (OLD.queue = '${QUEUE}')
EXECUTE FUNCTION ledger.book_act();
CREATE TRIGGER books_due AFTER UPDATE OF due_at ON sluice.message FOR EACH ROW
WHEN (OLD.queue = '${QUEUE}' AND OLD.due_at <> NEW.due_at) EXECUTE FUNCTION ledger.book_act();
CREATE TRIGGER books_redrive AFTER DELETE ON sluice.dead_letter FOR EACH ROW WHEN (OLD.queue = '${QUEUE}')
EXECUTE FUNCTION ledger.book_act()`

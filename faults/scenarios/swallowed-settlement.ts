import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

const SWALLOW = `
CREATE OR REPLACE FUNCTION ledger.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER swallow BEFORE DELETE ON sluice.message FOR EACH ROW EXECUTE FUNCTION ledger.swallow()`

/** A trigger of somebody else keeps handled messages in the queue. Their effects must not stay either. */
export const swallowedSettlement = scenario({
  name: 'swallowed-settlement',
  title: 'a trigger on the queue that swallows every DELETE for a while',
  // A worker that cannot settle waits for up to ten seconds before it tries again.
  recoveryMs: 15_000,
  injections: { quick: 1, full: 3 },
  // One that is out of attempts cannot be moved to the dead letters under the trigger, and comes again after a minute.
  load: { dying: 0 },
  // A batch that is lost although its server is well may count against its messages.
  costsAttempts: true,
  otherwise: { injections: { quick: 1, full: 3 } },
  twin: {
    name: 'settlement-not-counted',
    title: 'a settlement that does not count the rows that it changes',
    edits: [
      {
        file: 'table/settle/settle.ts',
        from: 'WHERE t.n OPERATOR(pg_catalog.<) pg_catalog.cardinality($2::bigint[])`',
        to: 'WHERE false`',
      },
    ],
    caught: ['repeated'],
  },
  async inject(stage) {
    const begun = await startedBy(stage)
    await stage.fault('every DELETE swallowed', async () => {
      await stage.sql(SWALLOW)
      await until(async () => (await startedBy(stage)) > begun + AGAIN, 'messages to be handled in vain', 20_000)
      await stage.sql('DROP TRIGGER swallow ON sluice.message')
    })
  },
})

/** More handlers than there are places, so that some have run under the trigger. */
const AGAIN = 40

async function startedBy(stage: Stage): Promise<number> {
  const [row] = await stage.sql('SELECT count(*)::integer AS started FROM ledger.started')
  return Number(row?.started)
}

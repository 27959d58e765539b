import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { messageTable } from './message-table.ts'

/**
 * What a user could write by hand on the same table: claim, work, delete and commit, with the statements of one batch's
 * end and the next one's beginning in one packet. No retries, no wake-up, no order, no evidence of crashes.
 */
export const rawLoop: Contestant = {
  name: 'raw-loop',
  title: 'Loop by hand',
  guarantee:
    'Claim, work and delete are one transaction, exactly once; but the first message that fails stops its batch for ever',
  ...messageTable,
  consumes: {
    configuration:
      'pg with pipeline: true; SELECT … FOR UPDATE SKIP LOCKED, work, then DELETE, COMMIT, BEGIN and the next SELECT ' +
      'sent at once; prepared statements; looks every 10 ms when there is nothing',
    run: consume,
  },
}

const CLAIM = `
SELECT id::text, payload::text FROM sluice.message
WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now()
ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`
const DELETE = `DELETE FROM sluice.message WHERE queue = 'bench' AND id = ANY ($1::bigint[])`
const IDLE_MS = 10

async function consume(url: string, spec: ConsumeSpec): Promise<Consumer> {
  const stopping = new AbortController()
  const loops = Array.from({ length: spec.inFlight }, () => loop(url, spec, stopping.signal))
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

async function loop(url: string, spec: ConsumeSpec, stopping: AbortSignal): Promise<void> {
  const client = new pg.Client({ connectionString: url, pipeline: true })
  await client.connect()
  let claimed = claim(client, spec.batchSize)
  while (!stopping.aborted) {
    const ids = await claimed
    if (ids.length === 0) {
      await client.query('ROLLBACK')
      await sleep(IDLE_MS)
      claimed = claim(client, spec.batchSize)
      continue
    }
    await work(client, ids, spec.work)
    const deleted = client.query({ name: 'delete', text: DELETE, values: [ids] })
    const committed = client.query('COMMIT')
    claimed = claim(client, spec.batchSize)
    const [, { command }] = await Promise.all([deleted, committed])
    if (command !== 'COMMIT') throw new Error(`COMMIT answered by ${command}`)
    spec.onSettled(ids.length)
  }
  await claimed
  await client.query('ROLLBACK')
  await client.end()
}

async function claim(client: pg.Client, limit: number): Promise<readonly string[]> {
  const begun = client.query('BEGIN')
  const claimed = client.query<{ id: string; payload: string }>({ name: 'claim', text: CLAIM, values: [limit] })
  await begun
  return (await claimed).rows.map((row) => row.id)
}

async function work(client: pg.Client, ids: readonly string[], { kind }: ConsumeSpec['work']): Promise<void> {
  if (kind === 'insert batch') await client.query(INSERT_EFFECTS, [ids])
  if (kind !== 'insert each') return
  for (const id of ids) {
    await client.query('SAVEPOINT message')
    await client.query(INSERT_EFFECT, [id])
    await client.query('RELEASE SAVEPOINT message')
  }
}

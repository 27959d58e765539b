import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Consumer, ConsumeSpec, Contestant, Payload, Work } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { messageTable, withoutTrigger } from './message-table.ts'
import { openWriter } from './writer.ts'

/**
 * What a user could write by hand on the same table: claim, work, delete and commit, with the statements of one batch's
 * end and the next one's beginning in one packet. No retries, no wake-up, no order, no evidence of crashes.
 */
export const rawLoop: Contestant = {
  name: 'raw-loop',
  title: 'By hand',
  guarantee:
    'Claim, work and delete are one transaction, exactly once; but the first message that fails stops its batch for ever',
  ...messageTable,
  setUp: withoutTrigger,
  consumes: {
    configuration:
      'pg with pipeline: true; SELECT … FOR UPDATE SKIP LOCKED, work, then DELETE, COMMIT, BEGIN and the next SELECT ' +
      'sent at once; prepared statements; for one effect per message SAVEPOINT, INSERT and RELEASE, each awaited',
    run: (url, spec) => loopByHand(url, { ...spec, work: (client, rows) => workOff(client, rows, spec.work) }),
  },
  listens: {
    configuration: 'the same loop, which looks again after 10 ms when there was nothing',
    run: (url, { handle, ...spec }) =>
      loopByHand(url, {
        ...spec,
        work: async (_client, rows) => {
          for (const { payload } of rows) await handle(JSON.parse(payload) as Payload)
        },
      }),
  },
  enqueues: {
    configuration: 'INSERT INTO sluice.message (queue, payload), many by unnest($1::text[]); trigger disabled',
    run: async (url) => ({
      open: () =>
        openWriter(url, {
          one: (client, message) => client.query(INSERT_ONE, [JSON.stringify(message)]),
          many: (client, messages) => client.query(INSERT_MANY, [messages.map((message) => JSON.stringify(message))]),
        }),
      stop: async () => undefined,
    }),
  },
}

const INSERT_ONE = `INSERT INTO sluice.message (queue, payload) VALUES ('bench', $1::text::jsonb)`
const INSERT_MANY = `INSERT INTO sluice.message (queue, payload) SELECT 'bench', unnest($1::text[])::jsonb`

const CLAIM = `
SELECT id::text, payload::text FROM sluice.message
WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now()
ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`
const DELETE = `DELETE FROM sluice.message WHERE queue = 'bench' AND id = ANY ($1::bigint[])`
const IDLE_MS = 10

interface ClaimedRow {
  readonly id: string
  readonly payload: string
}

interface LoopSpec extends Omit<ConsumeSpec, 'work'> {
  readonly work: (client: pg.Client, rows: readonly ClaimedRow[]) => Promise<void>
}

/** Such a loop, with any work. */
export async function loopByHand(url: string, spec: LoopSpec): Promise<Consumer> {
  const stopping = new AbortController()
  const loops = Array.from({ length: spec.inFlight }, () => loop(url, spec, stopping.signal))
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

async function loop(url: string, spec: LoopSpec, stopping: AbortSignal): Promise<void> {
  const client = new pg.Client({ connectionString: url, pipeline: true })
  await client.connect()
  let claimed = claim(client, spec.batchSize)
  while (!stopping.aborted) {
    const rows = await claimed
    if (rows.length === 0) {
      await client.query('ROLLBACK')
      await sleep(IDLE_MS)
      claimed = claim(client, spec.batchSize)
      continue
    }
    await spec.work(client, rows)
    const deleted = client.query({ name: 'delete', text: DELETE, values: [rows.map(({ id }) => id)] })
    const committed = client.query('COMMIT')
    claimed = claim(client, spec.batchSize)
    const [, { command }] = await Promise.all([deleted, committed])
    if (command !== 'COMMIT') throw new Error(`COMMIT answered by ${command}`)
    spec.onSettled(rows.length)
  }
  await claimed
  await client.query('ROLLBACK')
  await client.end()
}

async function claim(client: pg.Client, limit: number): Promise<readonly ClaimedRow[]> {
  const begun = client.query('BEGIN')
  const claimed = client.query<ClaimedRow>({ name: 'claim', text: CLAIM, values: [limit] })
  await begun
  return (await claimed).rows
}

async function workOff(client: pg.Client, rows: readonly ClaimedRow[], work: Work): Promise<void> {
  if (work === 'insert batch') await client.query(INSERT_EFFECTS, [rows.map(({ id }) => id)])
  if (work !== 'insert each') return
  for (const { id } of rows) {
    await client.query('SAVEPOINT message')
    await client.query(INSERT_EFFECT, [id])
    await client.query('RELEASE SAVEPOINT message')
  }
}

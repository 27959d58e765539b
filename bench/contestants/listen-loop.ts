import pg from 'pg'
import type { Consumer, Contestant, ListenSpec, Payload } from '../contestant.ts'
import { messageTable, withoutTrigger } from './message-table.ts'
import { openWriter } from './writer.ts'

/** The least that a wake-up can be: NOTIFY in the writer's transaction, and a SELECT when it arrives. */
export const listenLoop: Contestant = {
  name: 'listen-loop',
  title: 'LISTEN and SELECT by hand',
  guarantee: 'None: nothing is locked, and a notification that is lost is lost',
  ...messageTable,
  setUp: withoutTrigger,
  listens: { configuration: 'one connection: LISTEN, and at each notification one prepared SELECT', run: listen },
  enqueues: {
    configuration: 'INSERT and pg_notify in one statement each',
    run: async (url) => ({
      open: () => openWriter(url, { one: insertAndNotify }),
      stop: async () => undefined,
    }),
  },
}

const INSERT = `INSERT INTO sluice.message (queue, payload) VALUES ('bench', $1::text::jsonb)`
const SELECT = `
SELECT id::text, payload::text FROM sluice.message
WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now() ORDER BY due_at, id LIMIT 1`
const DELETE = `DELETE FROM sluice.message WHERE queue = 'bench' AND id = $1::bigint`

async function insertAndNotify(client: pg.Client, message: Payload): Promise<void> {
  await client.query(INSERT, [JSON.stringify(message)])
  await client.query(`SELECT pg_notify('bench', '')`)
}

async function listen(url: string, spec: ListenSpec): Promise<Consumer> {
  const client = new pg.Client(url)
  await client.connect()
  client.on('notification', () => void handleNext(client, spec))
  await client.query('LISTEN bench')
  return { stop: () => client.end() }
}

async function handleNext(client: pg.Client, spec: ListenSpec): Promise<void> {
  const { rows } = await client.query<{ id: string; payload: string }>({ name: 'select', text: SELECT })
  for (const { id, payload } of rows) {
    await spec.handle(JSON.parse(payload) as Payload)
    await client.query({ name: 'delete', text: DELETE, values: [id] })
    spec.onSettled(1)
  }
}

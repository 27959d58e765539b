import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { type WireMessage, WireReader } from '../../../faults/environment/wire.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import { Session } from '../../../src/session/session.ts'
import { createNumberedEffects, INSERT_NUMBERED } from '../../support/effects.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

test('two versions of a statement under one name are two statements', async ({ database }) => {
  const { client, execute } = await namedClient(database.url)
  expect(await execute({ name: 'sluice_x', text: 'SELECT 1 AS version' }, [])).toEqual([{ version: 1 }])
  expect(await execute({ name: 'sluice_x', text: 'SELECT 2 AS version' }, [])).toEqual([{ version: 2 }])
  expect(await namesIn(client)).toHaveLength(2)
})

test('a connection straight to the server has names, and a statement is prepared once', async ({ database }) => {
  const { client, execute } = await namedClient(database.url)
  const one = { name: 'sluice_one', text: 'SELECT $1::integer AS n' }
  expect(await execute(one, [1])).toEqual([{ n: 1 }])
  expect(await execute(one, [2])).toEqual([{ n: 2 }])
  expect(await namesIn(client)).toEqual([expect.stringMatching(/^sluice_one_[0-9a-f]{8}$/)])
})

test('behind a pooler that gives statements names of its own they are prepared', async ({ database }) => {
  const url = await renamingPooler(database.url)
  const { client, execute, session } = await namedClient(url)
  expect(session).toMatchObject({ pooled: true, names: true })
  await execute({ name: 'sluice_one', text: 'SELECT 1 AS n' }, [])
  expect(await namesIn(client)).toEqual([expect.stringMatching(/^RENAMED_sluice_one_/)])
})

test('P1: names that vanish cost a batch, once, and then there are none', async ({ database, sluice, queue, log }) => {
  const effects = await createNumberedEffects(database)
  let first = true
  await put(sluice, queue, [1, 2])
  sluice
    .pipeline(queue, { batchSize: 1, concurrency: 1 })
    .handle(async ({ payload }, { tx }) => {
      await tx.query(INSERT_NUMBERED, [queue, payload])
      // As another session would be: it knows none of the names that this one has given. The claim of the second
      // batch has used one.
      if (payload === 2 && first) {
        first = false
        await tx.query(`DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$`)
      }
    })
    .subscribe()
  await untilEmpty(database, queue)
  expect(await effects(queue)).toEqual([1, 2])
  expect(log.of('message.failed')).toEqual([])
  expect(log.of('batch.released')).toMatchObject([{ error: { code: '26000' } }])
  expect(log.of('connection.pooled')).toMatchObject([{ role: 'batches' }])
})

test('a handler enqueues with the names of its batch, and without them through a client of its own', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database)
  const seen: string[][] = []
  await put(sluice, queue, [1, 2])
  sluice
    .pipeline(queue, { batchSize: 1, concurrency: 1 })
    .handle(async (_, { tx, enqueue }) => {
      await enqueue(`${queue}.next`, {})
      seen.push(await namesIn(tx.client))
    })
    .subscribe()
  await untilEmpty(database, queue)
  expect(seen[1]?.some((name) => name.startsWith('sluice_insert_'))).toBe(true)

  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN')
  await sluice.enqueue(client, `${queue}.next`, {})
  expect(await namesIn(client)).toEqual([])
})

async function namedClient(url: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(() => client.end())
  const session = Session.of(client)
  await session.learn(client)
  return { client, session, execute: executeOn(client) }
}

async function namesIn(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>('SELECT name FROM pg_prepared_statements ORDER BY name')
  return rows.map(({ name }) => name).filter((name) => !name.endsWith('sluice_session'))
}

/**
 * What a pooler that tracks prepared statements does to them, and to the number of the server process: the client sees
 * another one, and the server sees other names.
 */
async function renamingPooler(url: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const listener = createServer().listen(0, '127.0.0.1')
  await once(listener, 'listening')
  onTestFinished(() => void listener.close())
  listener.on('connection', (client) => {
    const server = connect({ host: hostname, port: Number(port) })
    relay(client, server, 'client', renamed)
    relay(server, client, 'server', withOtherPid)
  })
  const through = new URL(url)
  through.host = `127.0.0.1:${(listener.address() as AddressInfo).port}`
  return through.href
}

function relay(from: Socket, to: Socket, side: 'client' | 'server', change: (message: WireMessage) => Buffer): void {
  const reader = new WireReader(side)
  from.on('data', (chunk: Buffer) => to.write(Buffer.concat([...reader.read(chunk)].map(change))))
  from.on('close', () => to.destroy())
  from.on('error', () => to.destroy())
}

/** The statement's name in Parse is the first text, in Bind the second; Describe names portals here, and no statement. */
function renamed({ type, bytes }: WireMessage): Buffer {
  if (type !== 'P' && type !== 'B') return bytes
  const at = type === 'P' ? 5 : bytes.indexOf(0, 5) + 1
  if (bytes[at] === 0) return bytes
  const changed = Buffer.concat([bytes.subarray(0, at), Buffer.from('RENAMED_'), bytes.subarray(at)])
  changed.writeInt32BE(changed.length - 1, 1)
  return changed
}

function withOtherPid({ type, bytes }: WireMessage): Buffer {
  if (type !== 'K') return bytes
  const changed = Buffer.from(bytes)
  changed.writeInt32BE(-1, 5)
  return changed
}

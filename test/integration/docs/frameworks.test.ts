import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { transform } from 'esbuild'
import { describe, expect, type TestContext } from 'vitest'
import { FROM_SOURCE } from '../../support/processes/from-source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'
import { PROCESS_MS, waitFor } from '../../support/wait.ts'

const ROOT = join(import.meta.dirname, '../../..')
const FOLDER = join(ROOT, 'examples/frameworks')

/** That of the test, because the tests run side by side. */
type AtEnd = TestContext['onTestFinished']

/** How each program ends after SIGTERM: Nest sends the signal again when its hooks have run. */
const PROGRAMS = {
  hono: { file: () => join(FOLDER, 'hono.ts'), end: [0, null] },
  fastify: { file: () => join(FOLDER, 'fastify.ts'), end: [0, null] },
  express: { file: () => join(FOLDER, 'express.ts'), end: [0, null] },
  nest: { file: compiledNest, end: [null, 'SIGTERM'] },
  next: { file: () => join(ROOT, 'test/support/processes/next-process.ts'), end: [0, null] },
} as const

describe('the program for', () => {
  test.concurrent.for(Object.entries(PROGRAMS))(
    '%s commits an order with its message or not at all, handles it, and ends a handler in flight at SIGTERM',
    async ([, { file, end }], { onTestFinished }) => {
      await using database = await createTestDatabase()
      // Checked at COMMIT, when the message has been enqueued.
      const item = 'item text UNIQUE DEFERRABLE INITIALLY DEFERRED'
      await database.sql(`CREATE TABLE example_order (id serial PRIMARY KEY, ${item})`)
      await database.sql('CREATE TABLE example_receipt (order_id int NOT NULL)')
      const server = await start(database, await file(onTestFinished), onTestFinished)

      expect(await server.order('lamp')).toEqual({ status: 201, body: { id: 1 } })
      await untilReceipts(database, [1])
      expect((await server.order('lamp')).status).toBe(500)

      const session = await database.pool.connect()
      await session.query('BEGIN; LOCK TABLE example_receipt IN ACCESS EXCLUSIVE MODE')
      expect(await server.order('vase')).toEqual({ status: 201, body: { id: 3 } })
      await waitFor(() => waitsForReceipts(database), { what: 'the handler to wait for its table' })
      server.child.kill('SIGTERM')
      await waitFor(async () => !(await server.answers()), { what: 'the server to close', timeoutMs: PROCESS_MS })
      await session.query('COMMIT')
      session.release()
      expect(await server.ended).toEqual(end)
      await untilReceipts(database, [1, 3])
      expect(await database.sql('SELECT FROM sluice.message')).toEqual([])
      expect(await database.sql('SELECT FROM sluice.crash')).toEqual([])
      expect(await database.sql('SELECT item FROM example_order ORDER BY id')).toEqual([
        { item: 'lamp' },
        { item: 'vase' },
      ])
    },
  )
})

test('the program for Nest has right types', async () => {
  const tsc = promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), ['-p', join(FOLDER, 'nest')])
  const { stdout } = await tsc.catch((error: { stdout: string }) => error)
  expect(stdout).toBe('')
})

async function start({ url }: TestDatabase, file: string, onTestFinished: AtEnd) {
  const env = { ...process.env, ...FROM_SOURCE, DATABASE_URL: url, PORT: '0', NEXT_RUNTIME: 'nodejs' }
  const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
  const ended = once(child, 'exit')
  const port = await waitFor(() => /listens on (\d+)/.exec(text)?.[1], {
    what: 'the server to listen',
    timeoutMs: PROCESS_MS,
  }).catch((error) => {
    throw new Error(`${error.message}, after: ${text}`)
  })
  const headers = { 'content-type': 'application/json', connection: 'close' }
  const order = async (item: string) => {
    const body = JSON.stringify({ item })
    const response = await fetch(`http://localhost:${port}/orders`, { method: 'POST', headers, body })
    const answer = await response.text()
    return { status: response.status, body: response.ok ? (JSON.parse(answer) as unknown) : undefined }
  }
  const answers = () =>
    fetch(`http://localhost:${port}/`, { headers }).then(
      () => true,
      () => false,
    )
  return { child, ended, order, answers }
}

async function untilReceipts(database: TestDatabase, orders: readonly number[]): Promise<void> {
  const receipts = () => database.sql<{ order: number }>('SELECT order_id AS order FROM example_receipt ORDER BY 1')
  await waitFor(async () => (await receipts()).length >= orders.length, { what: 'the receipts', timeoutMs: PROCESS_MS })
  expect((await receipts()).map(({ order }) => order)).toEqual(orders)
}

async function waitsForReceipts(database: TestDatabase): Promise<boolean> {
  const waiting = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%example_receipt%'`
  return (await database.sql(waiting)).length > 0
}

/** As `nest build` makes JavaScript of it. Below the repository, so that it finds the packages. */
async function compiledNest(onTestFinished: AtEnd): Promise<string> {
  mkdirSync(join(ROOT, '.tmp'), { recursive: true })
  const folder = mkdtempSync(join(ROOT, '.tmp/nest-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const { code } = await transform(readFileSync(join(FOLDER, 'nest/main.ts'), 'utf8'), {
    loader: 'ts',
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
  })
  const file = join(folder, 'main.mjs')
  writeFileSync(file, code.replace('"../shop.ts"', JSON.stringify(pathToFileURL(join(FOLDER, 'shop.ts')))))
  return file
}

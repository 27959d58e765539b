import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type BuildOptions, build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import { VERSION } from '../../../src/basics/version.ts'
import { migrationSql } from '../../../src/migrate/migrate.ts'
import { type BuiltPackage, buildPackage } from '../../support/processes/build-package.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

/** Migrates, enqueues in both kinds of transaction, handles with a worker that listens, and enqueues over HTTP. */
const APPLICATION = `
import pg from 'pg'
import { createSluice, migrationSql } from 'sluice'
import { createHttpHandler } from 'sluice/http'

async function main() {
  const connection = process.env.DATABASE_URL
  const sluice = createSluice({ connection })
  const { version } = await sluice.migrate()
  const db = new pg.Client(connection)
  await db.connect()
  await db.query('BEGIN')
  await sluice.enqueue(db, 'bundled', 'in my transaction')
  await db.query('COMMIT')
  const handled = []
  let parked = Promise.withResolvers()
  const subscription = sluice.pipeline('bundled').handle(async (message, { tx }) => {
    const { worker } = await tx.kysely().selectFrom('sluice.workers').select('version as worker').executeTakeFirst()
    handled.push([message.payload, worker])
    parked.resolve()
  }).subscribe()
  await parked.promise
  parked = Promise.withResolvers()
  await sluice.enqueue(sluice.ownTransaction, 'bundled', 'in its own')
  await parked.promise
  const listeners = "SELECT FROM pg_stat_activity WHERE application_name = 'sluice listener' AND query = 'LISTEN sluice' AND datname = current_database()"
  while ((await db.query(listeners)).rowCount === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  await subscription.drain()
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ messages: [{ payload: 'by HTTP' }] })
  const handler = createHttpHandler(sluice, { authorize: () => true })
  const { status } = await handler(new Request('http://localhost/queues/bundled/messages', { method: 'POST', headers, body }))
  await sluice.stop()
  await db.end()
  console.log(JSON.stringify({ version, handled, status, migrations: migrationSql() }))
}
main()
`

/** Uses the RxJS and the Kysely that the application has on what is made by those in the package. */
const WITH_OWN_PACKAGES = `
import { sql } from 'kysely'
import { concatMap, filter, firstValueFrom, from, isObservable, lastValueFrom, merge, take, toArray } from 'rxjs'
import { createSluice } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL, log: false })
await sluice.migrate()
await sluice.enqueueMany(sluice.ownTransaction, 'own', [{ payload: 1 }, { payload: 2 }])
const committed = firstValueFrom(from(sluice.events).pipe(filter(({ kind }) => kind === 'batch.committed')))
const payloads = []
const pipeline = sluice.pipeline('own').handle(async ({ payload }, { tx }) => {
  const { rows } = await sql\`SELECT \${payload}::integer + 1 AS next\`.execute(tx.kysely())
  const { total } = await tx.kysely().selectNoFrom(sql\`10\`.as('total')).executeTakeFirst()
  payloads.push(rows[0].next, total)
})
await pipeline.runOnce()
const { kind } = await committed
await sluice.enqueueMany(sluice.ownTransaction, 'own', [{ payload: 3 }, { payload: 4 }])
const deliveries = merge(sluice.deliveries('own', { demand: 2 })).pipe(
  take(2), concatMap(async (delivery) => { await delivery.ack(); return delivery.message.payload }), toArray())
const delivered = await lastValueFrom(deliveries)
console.log(JSON.stringify({ payloads, kind, delivered, isObservable: isObservable(sluice.events) }))
await sluice.stop()
`

/** Prints the packages that are loaded when the first message is handled, the files of Sluice, and what the first `tx.kysely()` adds. */
const LOADS = `
import { registerHooks } from 'node:module'
const loaded = new Set()
const files = []
registerHooks({ load(url, context, nextLoad) {
  const [, name] = /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url) ?? []
  if (name !== undefined) loaded.add(name)
  if (name === 'sluice') files.push(url.slice(url.lastIndexOf('/') + 1))
  return nextLoad(url, context)
} })
const { createSluice } = await import('sluice')
const sluice = createSluice({ connection: process.env.DATABASE_URL, log: false })
await sluice.enqueue(sluice.ownTransaction, 'first', 1)
const handled = Promise.withResolvers()
const pipeline = sluice.pipeline('first').handle(async (message, { tx }) => {
  if (message.payload === 1) handled.resolve()
  else tx.kysely()
})
const running = pipeline.start()
await handled.promise
const before = [...files]
await running.drain()
await sluice.enqueue(sluice.ownTransaction, 'first', 2)
await pipeline.runOnce()
console.log(JSON.stringify({ loaded: [...loaded], before, added: files.slice(before.length) }))
await sluice.stop()
`

/** What every ES module bundle needs whose packages, pg among them, call \`require\` for Node's modules. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"

const FORMATS: readonly (readonly [string, BuildOptions])[] = [
  ['an ES module', { format: 'esm', outExtension: { '.js': '.mjs' }, banner: { js: REQUIRE } }],
  ['a CommonJS module', { format: 'cjs', outExtension: { '.js': '.cjs' } }],
  ['a minified CommonJS module', { format: 'cjs', outExtension: { '.js': '.cjs' }, minify: true }],
]

let built: BuiltPackage | undefined
beforeAll(async () => {
  built = await buildPackage()
})
afterAll(() => built?.remove())

test('the package works with the RxJS and the Kysely of the application', async ({ database }) => {
  const file = join(built?.folder ?? '', 'application.mjs')
  writeFileSync(file, WITH_OWN_PACKAGES)
  const env = { PATH: process.env.PATH, DATABASE_URL: database.url }
  const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 90_000 })
  expect(JSON.parse(stdout)).toEqual({
    payloads: [2, 10, 3, 10],
    kind: 'batch.committed',
    delivered: [3, 4],
    isObservable: true,
  })
})

test('the package has no package but pg to find before its first message, few files of its own, and Kysely in none of them', async ({
  database,
}) => {
  const file = join(built?.folder ?? '', 'loads.mjs')
  writeFileSync(file, LOADS)
  const env = { PATH: process.env.PATH, DATABASE_URL: database.url }
  const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout: 90_000 })
  const { loaded, before, added } = JSON.parse(stdout)
  expect(loaded).toContain('pg')
  expect(loaded.filter((name: string) => ['kysely', 'rxjs', 'tslib', 'pg-listen', 'debug'].includes(name))).toEqual([])
  expect(before.length).toBeLessThan(20)
  expect(before).not.toContain('kysely.cjs')
  expect(added).toContain('kysely.cjs')
})

describe('an application that esbuild has bundled into one file, without externals', () => {
  test.for(FORMATS)('migrates, enqueues and handles as %s in an empty folder', async ([, options]) => {
    await using database = await createTestDatabase({ migrated: false })
    const folder = mkdtempSync(join(tmpdir(), 'sluice-bundle-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { warnings } = await build({
      stdin: { contents: APPLICATION, resolveDir: built?.folder ?? '', sourcefile: 'application.js' },
      bundle: true,
      platform: 'node',
      target: 'node22',
      outdir: folder,
      logLevel: 'silent',
      // Not that of this repository, in which "sluice" is its source.
      tsconfigRaw: {},
      ...options,
    })
    expect(warnings.map(({ text }) => text)).toEqual([])
    const file = join(folder, `stdin${options.outExtension?.['.js']}`)
    const env = { PATH: process.env.PATH, DATABASE_URL: database.url }
    const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder, env, timeout: 90_000 })
    expect(JSON.parse(stdout)).toEqual({
      version: expect.any(Number),
      handled: [
        ['in my transaction', VERSION],
        ['in its own', VERSION],
      ],
      status: 201,
      migrations: migrationSql(),
    })
  })
})

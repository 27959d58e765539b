import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ERROR_CODES } from '../../../src/errors.ts'
import * as sluice from '../../../src/index.ts'

const ROOT = join(import.meta.dirname, '../../..')
const COMING_FROM = 'docs/guides/coming-from'
const SHELVES = ['docs/start', 'docs/guides', COMING_FROM, 'docs/reference', 'docs/internals']
const API = 'docs/reference/api'
const PAGES = [
  '.',
  'docs',
  ...SHELVES,
  API,
  'docs/decisions',
  'examples',
  'examples/frameworks',
  'demo',
  'bench',
  'test/support',
].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((file) => file.endsWith('.md'))
    .map((file) => ({ path: join(folder, file), text: readFileSync(join(ROOT, folder, file), 'utf8') })),
)

/** The queues from which a user may come, each with a page of its own. */
const QUEUES_BEFORE = readdirSync(join(ROOT, COMING_FROM))
  .filter((file) => file !== 'README.md')
  .map((file) => `coming-from/${file.replace('.md', '')}`)

/** Their promises are on their own pages; those of all queues are in docs/reference/guarantees.md. */
const WITH_PROMISES = [
  'audit',
  'streams',
  'leased',
  'limits',
  'claims',
  'history',
  'dedupe',
  'ordering',
  'schedules',
  'relay',
  'inbox',
  'webhooks',
]

/** The other pages without the words below. docs/reference/api has those of the doc comments, docs/internals/reliability.md those of the results. */
const PLAIN = [
  'queues',
  'guarantees',
  'workers',
  'messages',
  'operations',
  'troubleshooting',
  'telemetry',
  'scaling',
  'operate',
  'dashboard',
  'doctor',
  'explain',
  'errors',
  'http',
  'sql',
  'testing',
  'clients',
  'cli',
  'security',
  'coming-from/README',
  ...QUEUES_BEFORE,
  'changing-handlers',
  'deployment',
  'frameworks',
  'logging',
  'migrations',
  'comparison',
  'typescript',
  'deliveries',
  'retries',
  '1-enqueue',
  '2-worker',
  '3-slow-work',
  '4-order-and-retries',
  '5-operate',
]

/** Persons who are processes or sessions, and words that stand for a usual one: in flight, setting, at most. */
const UNUSUAL =
  /\b(?:nobody|somebody|whoever|in hand|(?:is|are|been|was) told|stands|so many|(?:^|\. )(?:of|for) which)\b/gi

const QUOTE = /“([^”]+)” in `(test\/[^`]+)`/g

describe('the documentation', () => {
  test('has every error code, and no other', () => {
    const page = PAGES.find(({ path }) => path === 'docs/reference/errors.md')?.text ?? ''
    expect([...page.matchAll(/^### (\w+)$/gm)].map((match) => match[1]).sort()).toEqual([...ERROR_CODES].sort())
  })

  test('links to what is there', () => {
    const broken = PAGES.flatMap(({ path, text }) =>
      [...text.matchAll(/(?:\]\(|\bsrc="|\bsrcset=")(?!https?:)([^)"#]*)(?:#([^)]*))?[)"]/g)]
        .filter(([, file = '', anchor]) => !isThere(join(ROOT, file === '' ? path : join(dirname(path), file)), anchor))
        .map(([link]) => `${path}: ${link}`),
    )
    expect(broken).toEqual([])
  })

  test('has each page in docs/README.md, and forty questions with their answers', () => {
    const index = read(join(ROOT, 'docs/README.md'))
    const linked = [...index.matchAll(/\]\(([^)#]+)/g)].map(([, file = '']) => join('docs', file))
    const shelved = PAGES.map(({ path }) => path).filter((path) => SHELVES.includes(dirname(path)))
    // The package is without it.
    const left = ['docs/internals/changes-before-0.1.0.md']
    expect(shelved.filter((path) => !linked.includes(path))).toEqual(left)
    const questions =
      index
        .split('\n## How do I')[1]
        ?.split('\n## ')[0]
        ?.match(/^- \[.*\?\]\([^)]+#[^)]+\)$/gm) ?? []
    expect(questions.length).toBeGreaterThanOrEqual(40)
  })

  test.for(QUEUES_BEFORE)('gives a user of %s the words, a way to move over, and what Sluice does not do', (page) => {
    const headings = headingsOf(pageOf(page))
    expect(headings).toEqual(expect.arrayContaining(['words', 'move-over', 'what-sluice-does-not-do']))
  })

  test('leads a newcomer to a working core in 4,000 words, of which the README has 1,400 at most', () => {
    const wordsOf = (path: string) => read(join(ROOT, path)).trim().split(/\s+/).length
    const steps = readdirSync(join(ROOT, 'docs/start')).map((file) => wordsOf(`docs/start/${file}`))
    const readme = wordsOf('README.md')
    expect(readme).toBeLessThanOrEqual(1_400)
    expect(steps.reduce((sum, words) => sum + words, readme)).toBeLessThanOrEqual(4_000)
  })

  test.for(['relay', 'inbox'])('has a way that works at the top of the page on %s, in 600 words', (page) => {
    const [top = '', ...rest] = pageOf(page).split('\n## Options\n')
    expect(rest).toHaveLength(1)
    expect(top).toContain('\n## Begin\n')
    expect(top.trim().split(/\s+/).length).toBeLessThanOrEqual(600)
  })

  test('quotes tests by their names', () => {
    const quotes = PAGES.flatMap(({ path, text }) =>
      [...text.replaceAll(/\s+/g, ' ').matchAll(QUOTE)].map(([, name = '', file = '']) => ({ path, name, file })),
    )
    expect(quotes.length).toBeGreaterThan(30)
    expect(quotes.filter(({ name, file }) => !read(join(ROOT, file)).includes(name))).toEqual([])
  })

  test.for(WITH_PROMISES)('quotes a test for each promise of the page on %s', (page) => {
    const promises = promisesOf(pageOf(page))
    expect(promises.length).toBeGreaterThan(1)
    expect(promises.filter((promise) => promise.match(QUOTE) === null)).toEqual([])
  })

  test.for([...WITH_PROMISES, ...PLAIN])('says who does what, in the usual words, on the page on %s', (page) => {
    const text = pageOf(page).replaceAll(/“[^”]+”/g, '')
    expect(text.match(UNUSUAL) ?? []).toEqual([])
  })

  test('has every call of sluice.operate', () => {
    const { operate } = sluice.createSluice({ connection: 'postgres://localhost/none' })
    const nouns = { '': operate, ...operate, 'queues.settings': operate.queues.settings }
    const calls = Object.entries(nouns).flatMap(([noun, of]) =>
      Object.getOwnPropertyNames(Object.getPrototypeOf(of))
        .filter((name) => name !== 'constructor')
        .map((name) => (noun === '' ? name : `${noun}.${name}`)),
    )
    expect(calls.length).toBeGreaterThan(50)
    const listed = firstCells(read(join(ROOT, 'docs/reference/operate.md'))).flatMap(callsOf)
    expect(calls.filter((call) => !listed.includes(call))).toEqual([])
  })

  test('lists every view and function of the page on SQL at its top', () => {
    const [top = '', ...sections] = pageOf('reference/sql').split(/^(?=#{2,3} )/m)
    const described = sections.flatMap((section) => /^#{2,3} sluice\.(\w+)\n/.exec(section)?.[1] ?? [])
    const listed = [...top.matchAll(/\]\(#sluice(\w+)\)/g)].map(([, name = '']) => name)
    expect(described.length).toBeGreaterThan(80)
    expect(listed.sort()).toEqual(described.sort())
  })

  test('says in ARCHITECTURE.md what each folder of src is for', () => {
    const page = read(join(ROOT, 'ARCHITECTURE.md'))
    const folders = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ parentPath, name }) => `${relative(ROOT, join(parentPath, name))}/`)
    expect(folders.length).toBeGreaterThan(50)
    expect(folders.filter((folder) => !page.includes(`\`${folder}\``))).toEqual([])
  })

  test('names files that are there', () => {
    const missing = PAGES.flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:src|server|demo|test|migrations|schema|examples|bench|docs|scripts)\/[\w./-]*)`/g)]
        .filter(([, file = '']) => !existsSync(join(ROOT, file)))
        .map(([name]) => `${path}: ${name}`),
    )
    expect(missing).toEqual([])
  })

  test('shows tests as they are', () => {
    const shown = PAGES.flatMap(codeOf).flatMap(({ code }) => {
      const [head, file = ''] = TEST_FILE.exec(code) ?? []
      return head === undefined ? [] : [{ file, code: code.slice(head.length) }]
    })
    expect(shown.map(({ file }) => file)).toContain('test/isolation/example.test.ts')
    for (const { file, code } of shown) expect(code, file).toBe(read(join(ROOT, file)))
  })

  test('shows examples as they are', () => {
    const shown = PAGES.flatMap(codeOf).flatMap(({ code }) => {
      const [head, file = ''] = EXAMPLE_FILE.exec(code) ?? []
      return head === undefined ? [] : [{ file, code: code.slice(head.length) }]
    })
    expect(shown.length).toBeGreaterThan(5)
    for (const { file, code } of shown) expect(code, file).toBe(read(join(ROOT, file)).replace(/^(?:\/\/.*\n)+\n/, ''))
  })

  test('shows no `using`, which the oldest Node that is supported cannot read', () => {
    const examples = readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => ({ path: `examples/${file}`, code: read(join(ROOT, 'examples', file)) }))
    const programs = [...examples, ...PAGES.filter(({ path }) => path.startsWith('docs/')).flatMap(codeOf)]
    expect(programs.filter(({ code }) => /^ *(?:await )?using \w+ =/m.test(code)).map(({ path }) => path)).toEqual([])
  })

  test('has programs that compile', async () => {
    mkdirSync(join(ROOT, '.tmp'), { recursive: true })
    const folder = mkdtempSync(join(ROOT, '.tmp/docs-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(configuration(folder)))
    const programs = PAGES.flatMap(codeOf).filter(({ code }) => !TEST_FILE.test(code) && !EXAMPLE_FILE.test(code))
    expect(programs.length).toBeGreaterThan(10)
    for (const [at, { path, code }] of programs.entries()) {
      const [, name = `${at}.ts`] = NAME.exec(code) ?? []
      const place = join(folder, projectOf(path).replaceAll(/\W/g, '-'))
      mkdirSync(place, { recursive: true })
      writeFileSync(join(place, name), program(code))
    }
    const tsc = join(ROOT, 'node_modules/.bin/tsc')
    const { stdout } = await promisify(execFile)(tsc, ['-p', folder]).catch((error: { stdout: string }) => error)
    expect(stdout).toBe('')
  })
})

function isThere(file: string, anchor: string | undefined): boolean {
  if (!existsSync(file)) return false
  return anchor === undefined || headingsOf(read(file)).includes(anchor)
}

/** The anchors of a page's headings, as GitHub makes them. */
function headingsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

/** The page of a name, on whichever shelf it lies. */
function pageOf(name: string): string {
  const page = PAGES.find(({ path }) => path.startsWith('docs/') && path.endsWith(`/${name}.md`))
  if (page === undefined) throw new Error(`expected a page ${name}.md below docs/, received none`)
  return page.text
}

function read(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

function codeOf({ path, text }: { readonly path: string; readonly text: string }) {
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => ({ path, code }))
}

/** The paragraphs and lists below "Promises" that begin in bold, each on one line. */
function promisesOf(page: string): readonly string[] {
  const section = page.split(/^(?=## )/m).find((part) => part.startsWith('## Promises\n')) ?? ''
  const [, ...promises] = section.split(/^(?=\*\*)/m)
  return promises.map((promise) => promise.replaceAll(/\s+/g, ' '))
}

/** The first cell of each row of each table. */
function firstCells(page: string): readonly string[] {
  return [...page.matchAll(/^\| (`.*?) \|/gm)].map(([, cell = '']) => cell)
}

/** "`streams.pause`, `resume(group)`" are the calls streams.pause and streams.resume. */
function callsOf(cell: string): readonly string[] {
  const names = [...cell.matchAll(/`([\w.]+)[^`]*`/g)].map(([, name = '']) => name)
  const noun = names[0]?.match(/^\w+\./)?.[0] ?? ''
  return names.map((name) => (name.includes('.') ? name : noun + name))
}

/** Programs of a page import one another; those of the five steps are one project. */
function projectOf(path: string): string {
  return path.startsWith('docs/start/') ? 'docs/start' : path
}

/** The first line of a whole test file. */
const TEST_FILE = /^\/\/ (test\/[\w/-]+\.test\.ts)\n/

/** The first line of a whole example, which is compiled where it is. */
const EXAMPLE_FILE = /^\/\/ (examples\/[\w/-]+\.ts)\n/

/** The first line of a program that others import. */
const NAME = /^\/\/ ([\w.-]+\.ts)\n/

/** A whole program as it is; a part of one among the names that it may take for granted, and does not import itself. */
function program(code: string): string {
  if (NAME.test(code) || /\bcreateSluice\(/.test(code)) return code
  const imports = code.match(/^import .*$/gm) ?? []
  const body = code.replaceAll(/^import .*\n/gm, '')
  return `${preludeWithout(imports.flatMap(namesIn).map(bare))}\n${imports.join('\n')}\nexport async function part() {\n${body}\n}\n`
}

function preludeWithout(names: readonly string[]): string {
  return PRELUDE.replaceAll(/^import .*$/gm, (line) => {
    const [, from = ''] = / from (.*)$/.exec(line) ?? []
    const left = namesIn(line).filter((name) => !names.includes(bare(name)))
    if (left.length === namesIn(line).length) return line
    return left.length === 0 ? '' : `import { ${left.join(', ')} } from ${from}`
  })
}

function bare(name: string): string {
  return name.replace(/^type /, '')
}

/** `import pg from` gives 'pg', `import { a, type B } from` gives 'a' and 'type B'. */
function namesIn(line: string): readonly string[] {
  const [, names = ''] = /^import (?:type )?(.*) from /.exec(line) ?? []
  return names
    .replaceAll(/[{}]/g, '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

const PRELUDE = `
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import postgres from 'postgres'
import { filter, firstValueFrom } from 'rxjs'
import { z } from 'zod'
import { ${Object.keys(sluice).join(', ')}, type HandlerContext, type Message, type Sluice } from 'sluice'
import { createHttpHandler } from 'sluice/http'
import { fromKafka, kafka } from 'sluice/kafka'
import { fromNats, nats } from 'sluice/nats'
import { forHandlers, prismaIn } from 'sluice/prisma'
import { fromRabbitmq, rabbitmq } from 'sluice/rabbitmq'
import { fromRedis, redis } from 'sluice/redis'
import { advance, clearQueue, conformance, type ConformanceSubject, deliver, enqueuedIn, MemoryDestination, MemoryReceiver, receiverConformance, type ReceiverSubject, runDue } from 'sluice/testing'
declare const sluice: Sluice
declare const connection: string
declare const connectionString: string
declare const tx: pg.PoolClient
declare const client: pg.PoolClient
declare const pool: pg.Pool
declare const sql: postgres.Sql
declare const db: import('kysely').Kysely<Shop>
declare class PrismaClient {
  constructor(options: { adapter: import('@prisma/adapter-pg').PrismaPg })
  $transaction<T>(work: (tx: { $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown>; customer: { create(data: object): Promise<void> } }) => Promise<T>): Promise<T>
}
declare const prisma: PrismaClient
declare const audit: import('drizzle-orm/pg-core').PgTable & { message: unknown }
declare const payload: unknown
declare const customerId: string
declare function handleOrder(message: Message): Promise<void>
declare function charge(payload: unknown, options: { idempotencyKey: string; signal: AbortSignal }): Promise<string>
declare function send(message: Message): Promise<void>
declare function post(body: Uint8Array, signal: AbortSignal): Promise<number>
declare function test(name: string, work: () => Promise<void>): void
declare function brokerForOneTest(): Promise<ConformanceSubject>
declare function receiverForOneTest(): Promise<ReceiverSubject>
declare function pickUp(most: number, signal: AbortSignal): Promise<readonly { readonly number: string; readonly text: string }[]>
declare function confirmLetters(numbers: readonly (string | undefined)[]): Promise<void>
declare function log(what: unknown): void
declare function storeElsewhere(payload: unknown): Promise<void>
declare const boss: { work(name: string, options: object, work: (jobs: { id: string; data: object }[]) => Promise<void>): Promise<string> }
declare class Worker { constructor(name: string, work: (job: { id?: string; name: string; data: any }) => Promise<void>, options: object) }
type TaskList = Record<string, (payload: unknown, helpers: { job: { id: string } }) => Promise<void>>
interface Shop { invoice: { message: string }; customer: { name: string } }
`

function configuration(folder: string): object {
  const source = (file: string) => [join(relative(folder, ROOT), 'src', file)]
  return {
    compilerOptions: {
      target: 'ES2024',
      lib: ['ES2024', 'ESNext.Disposable'],
      module: 'NodeNext',
      types: ['node'],
      strict: true,
      skipLibCheck: true,
      allowImportingTsExtensions: true,
      noEmit: true,
      paths: {
        sluice: source('index.ts'),
        'sluice/http': source('http.ts'),
        'sluice/kafka': source('kafka.ts'),
        'sluice/nats': source('nats.ts'),
        'sluice/otel': source('otel.ts'),
        'sluice/prisma': source('prisma.ts'),
        'sluice/rabbitmq': source('rabbitmq.ts'),
        'sluice/redis': source('redis.ts'),
        'sluice/testing': source('testing.ts'),
        'sluice-dashboard': source('../packages/dashboard/src/index.ts'),
      },
    },
  }
}

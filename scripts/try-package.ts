/**
 * Tries the package as its users get it: checks the tarball, installs it into an empty project, and there compiles
 * and runs the first TypeScript program of the README.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findServer } from '../src/server.ts'

const root = join(import.meta.dirname, '..')
const project = mkdtempSync(join(tmpdir(), 'sluice-package-'))
const server = await findServer()
try {
  const tarball = pack()
  run('npx', ['publint', tarball, '--strict'], root)
  run('npx', ['attw', tarball, '--profile', 'esm-only'], root)
  createProject(tarball)
  run('npx', ['tsc'], project)
  run('npx', ['sluice', 'migrate'], project)
  run('node', ['program.js'], project)
} finally {
  await server.stop()
  rmSync(project, { recursive: true, force: true })
}

function pack(): string {
  run('npm', ['run', 'build'], root)
  run('npm', ['pack', '--ignore-scripts', '--pack-destination', project], root)
  const { name, version } = readManifest()
  return join(project, `${name}-${version}.tgz`)
}

function createProject(tarball: string): void {
  const { devDependencies } = readManifest()
  const types = ['typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`)
  write('package.json', JSON.stringify({ name: 'try', private: true, type: 'module' }))
  write(
    'tsconfig.json',
    JSON.stringify({ compilerOptions: { module: 'NodeNext', target: 'ES2024', strict: true, types: ['node'] } }),
  )
  write('program.ts', firstProgram())
  run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', tarball, ...types], project)
}

function firstProgram(): string {
  const program = /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1]
  if (program === undefined) throw new Error('README.md: expected a program in a ```ts block')
  return program
}

function readManifest(): { name: string; version: string; devDependencies: Record<string, string> } {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}

function write(name: string, text: string): void {
  writeFileSync(join(project, name), text)
}

function run(command: string, args: readonly string[], cwd: string): void {
  console.log(`\n$ ${[command, ...args].join(' ')}`)
  const { status } = spawnSync(command, args, {
    cwd,
    stdio: 'inherit',
    env: { ...process.env, DATABASE_URL: server.url },
    timeout: 300_000,
  })
  if (status !== 0) throw new Error(`${command} ${args[0]}: exit status ${status}`)
}

/**
 * Tries the package as its users get it: checks the tarball, installs it into empty projects, and there runs the programs
 * of the README and of the five steps, and whatever the table of modules in docs/guides/typescript.md says that works.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findServer } from '../server/find-server.ts'
import { entries } from './build/entries.ts'
import { tryBundlers } from './try-package/bundlers.ts'
import { tryPages } from './try-package/pages.ts'
import { Project } from './try-package/project.ts'
import { tryRequire } from './try-package/require.ts'
import { tryTypeScript } from './try-package/typescript.ts'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'sluice-package-'))
const server = await findServer()
try {
  const tarball = pack()
  const { devDependencies } = readManifest()
  expectLibraryAlone(tarball)
  const checks = new Project(root, server.url)
  checks.run('npx', ['--yes', 'publint@0.3.25', tarball, '--strict'])
  checks.run('npx', ['--yes', '@arethetypeswrong/cli@0.18.5', tarball, '--profile', 'esm-only'])
  tryPages(folder, server.url, tarball)
  tryRequire(Project.create(folder, 'require', server.url), tarball)
  tryTypeScript(Project.create(folder, 'typescript', server.url), tarball, devDependencies)
  tryBundlers(Project.create(folder, 'bundlers', server.url), tarball)
} finally {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
}

function pack(): string {
  const project = new Project(root, server.url)
  project.run('npm', ['run', 'build'])
  project.run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder])
  const { name, version } = readManifest()
  return join(folder, `${name}-${version}.tgz`)
}

/** What runs is an entry or a chunk. What is declared is in `src/`, and that holds no stranger by a test. */
function expectLibraryAlone(tarball: string): void {
  const files = execFileSync('tar', ['-tf', tarball], { encoding: 'utf8' }).split('\n')
  const built = files.flatMap((file) => /^package\/dist\/(.*)$/.exec(file)?.[1] ?? [])
  const programs = [...entries().map((entry) => `${entry}.js`), 'licences.txt']
  const isOurs = (file: string) =>
    programs.includes(file) ||
    /^(?:chunks\/[\w-]+|examples\/.*)\.c?js$/.test(file) ||
    (file.endsWith('.d.ts') && existsSync(join(root, 'src', file.replace('.d.ts', '.ts'))))
  const strangers = built.filter((file) => !isOurs(file))
  if (built.length < programs.length || strangers.length > 0) {
    throw new Error(`${tarball}: expected what is built of src/ and nothing else, received ${strangers}`)
  }
}

function readManifest(): { name: string; version: string; devDependencies: Record<string, string> } {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}

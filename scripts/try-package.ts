/**
 * Tries the package as its users get it: checks the tarball, installs it into empty projects, and there runs the programs
 * of the README, and whatever the table of modules in docs/guides/typescript.md says that works.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findServer } from '../server/find-server.ts'
import { tryBundlers } from './try-package/bundlers.ts'
import { Project } from './try-package/project.ts'
import { tryReadme } from './try-package/readme.ts'
import { tryRequire } from './try-package/require.ts'
import { tryTypeScript } from './try-package/typescript.ts'

const PG_LISTEN = 'wake-up/pg-listen'

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
  tryReadme(folder, server.url, tarball)
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

/** Each compiled file is of a file in `src/`, or a copy of pg-listen. What `src/` may hold, a test says. */
function expectLibraryAlone(tarball: string): void {
  const files = execFileSync('tar', ['-tf', tarball], { encoding: 'utf8' }).split('\n')
  const compiled = files.flatMap((file) => /^package\/dist\/(.*?)(?:\.d)?\.[jt]s$/.exec(file)?.[1] ?? [])
  const strangers = compiled.filter((path) => path !== PG_LISTEN && !existsSync(join(root, 'src', `${path}.ts`)))
  if (compiled.length === 0 || strangers.length > 0) {
    throw new Error(`${tarball}: expected what is compiled of src/ and nothing else, received ${strangers}`)
  }
}

function readManifest(): { name: string; version: string; devDependencies: Record<string, string> } {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
}

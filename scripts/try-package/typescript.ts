import type { Project } from './project.ts'

const PROGRAM = `
import { createSluice, isSluiceError } from 'sluice'
import { createHttpHandler, type HttpHandler } from 'sluice/http'
import { runDue } from 'sluice/testing'
const sluice = createSluice({ connection: 'postgres://localhost/none', queues: { mail: {} } })
const handler: HttpHandler = createHttpHandler(sluice, { authorize: (_, { queue }) => queue === 'mail' })
sluice.pipeline('mail').handle(async ({ payload }) => console.log(payload))
// @ts-expect-error There is no such queue: the types have arrived.
try { sluice.pipeline('post') } catch (error) { console.log(isSluiceError(error, 'QUEUE_UNKNOWN'), typeof runDue, typeof handler) }
`

/** Compiler options, by the "type" of the project's package.json. */
const SETTINGS: readonly (readonly [type: 'module' | 'commonjs', options: Readonly<Record<string, unknown>>])[] = [
  ['module', { module: 'node16' }],
  ['module', { module: 'nodenext' }],
  ['module', { module: 'esnext', moduleResolution: 'bundler' }],
  ['module', { module: 'preserve' }],
  ['commonjs', { module: 'node20' }],
  ['commonjs', { module: 'nodenext' }],
  ['commonjs', { module: 'commonjs' }],
]

/** Compiles under each setting, and runs what came of it. */
export function tryTypeScript(project: Project, tarball: string, versions: Readonly<Record<string, string>>): void {
  project.write('package.json', { private: true })
  project.install(tarball, ...['typescript', '@types/node'].map((name) => `${name}@${versions[name]}`))
  project.write('main.ts', PROGRAM)
  for (const [type, options] of SETTINGS) {
    console.log(`"type": "${type}", ${JSON.stringify(options)}`)
    project.write('package.json', { private: true, type })
    const compilerOptions = { target: 'ES2024', strict: true, types: ['node'], outDir: 'out', ...options }
    project.write('tsconfig.json', { compilerOptions, include: ['main.ts'] })
    project.run('npx', ['tsc'])
    project.expect('true function function\n', 'node', ['out/main.js'])
  }
}

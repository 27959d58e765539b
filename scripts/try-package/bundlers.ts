import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { Project } from './project.ts'

const PROGRAM = `
import { createSluice } from 'sluice'
async function main() {
  const sluice = createSluice({ connection: process.env.DATABASE_URL })
  await sluice.migrate()
  const { promise, resolve } = Promise.withResolvers()
  sluice.pipeline('bundled').handle(async ({ payload }) => resolve(payload)).subscribe()
  await sluice.enqueue(sluice.ownTransaction, 'bundled', 'lamp')
  console.log(await promise)
  await sluice.stop()
}
main()
`

const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"

const WEBPACK = `
module.exports = { mode: 'production', target: 'node', entry: './main.mjs', output: { filename: 'bundle.cjs' },
  module: { parser: { javascript: { dynamicImportMode: 'eager' } } },
  externals: { 'pg-native': 'commonjs pg-native' } }
`
const ROLLUP = `
import commonjs from '@rollup/plugin-commonjs'
import json from '@rollup/plugin-json'
import { nodeResolve } from '@rollup/plugin-node-resolve'
export default { input: 'main.mjs', output: { file: 'dist/bundle.cjs', format: 'cjs', inlineDynamicImports: true },
  external: ['pg-native'], plugins: [nodeResolve({ preferBuiltins: true }), commonjs(), json()] }
`

/** Bundles one program by several bundlers, and runs each file in an empty folder. */
export function tryBundlers(project: Project, tarball: string): void {
  project.write('package.json', { private: true })
  const rollup = ['rollup', '@rollup/plugin-commonjs', '@rollup/plugin-json', '@rollup/plugin-node-resolve']
  project.install(tarball, 'pg', 'esbuild', 'rolldown', 'webpack', 'webpack-cli', ...rollup)
  project.write('main.mjs', PROGRAM)
  project.write('webpack.config.cjs', WEBPACK)
  project.write('rollup.config.mjs', ROLLUP)
  const esbuild = ['esbuild', 'main.mjs', '--bundle', '--platform=node', '--log-level=error']
  const banner = ['--format=esm', `--banner:js=${REQUIRE}`]
  const bundlers: readonly (readonly [file: string, command: readonly string[]])[] = [
    ['dist/esbuild.cjs', [...esbuild, '--outfile=dist/esbuild.cjs']],
    ['dist/esbuild.mjs', [...esbuild, ...banner, '--outfile=dist/esbuild.mjs']],
    // Into a folder: since 1.2 it leaves a module that only passes on the exports of another in a file of its own.
    [
      'dist/rolldown/main.js',
      ['rolldown', 'main.mjs', '--platform=node', '--dir=dist/rolldown', '--no-code-splitting'],
    ],
    ['dist/bundle.cjs', ['webpack', '--config', 'webpack.config.cjs']],
    ['dist/bundle.cjs', ['rollup', '--config', 'rollup.config.mjs', '--silent']],
  ]
  for (const [at, [file, command]] of bundlers.entries()) {
    project.run('npx', command)
    const elsewhere = join(project.folder, '..', `bundled-${at}`)
    cpSync(join(project.folder, 'dist'), elsewhere, { recursive: true })
    new Project(elsewhere, project.databaseUrl).expect('lamp\n', 'node', [file.replace('dist/', '')])
  }
}

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SERVER_PACKAGES } from '../../../server/server-package.ts'

const ROOT = join(import.meta.dirname, '../../..')

test('the README says which versions of PostgreSQL were tried: those that the tests install', () => {
  const { devDependencies }: { devDependencies: Record<string, string> } = JSON.parse(read('package.json'))
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(read('test/servers/package.json'))
  const installed = { ...devDependencies, ...dependencies }
  const tried = Object.values(SERVER_PACKAGES).map((name) => /(\d+\.\d+)\.\d/.exec(installed[name] ?? '')?.[1])
  const said = /tried with ([^;]+?)\. No extension/.exec(read('README.md').replaceAll(/\s+/g, ' '))?.[1]
  expect(said?.split(/, | and /)).toEqual(tried)
  expect(Object.keys(SERVER_PACKAGES)).toEqual(tried.map((version) => version?.split('.')[0]))
})

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

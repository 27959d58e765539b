import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { SCHEMA_VERSION } from '../../../src/table/schema.ts'
import { SCHEMA_BUILD } from '../../../src/table/schema-build.ts'

/**
 * The build of each version of the schema that a release of the package has, for good: a library refuses its own version with
 * another build, and a corrected comment makes another. A release that is the first with its version adds a line.
 */
const RELEASED: Readonly<Record<number, string>> = {}

interface Sources {
  readonly released: Readonly<Record<number, string>>
  readonly schema: { readonly version: number; readonly build: string }
  readonly packageVersion: string
  readonly changelog: string
}

function faultOf({ released, schema, packageVersion, changelog }: Sources): string | undefined {
  const { version, build } = schema
  const pinned = released[version]
  if (pinned !== undefined && pinned !== build)
    return `schema/: expected build ${pinned}, which version ${version} has for good, received ${build}. Write a migration`
  const isReleased = !changelog.includes(`## [${packageVersion}] - not released yet`)
  if (isReleased && pinned === undefined) return `RELEASED: expected the line ${version}: '${build}', received none`
  return undefined
}

const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')

test('the schema of a released version stays as it is', () => {
  const { version: packageVersion } = JSON.parse(read('package.json'))
  const schema = { version: SCHEMA_VERSION, build: SCHEMA_BUILD }
  expect(faultOf({ released: RELEASED, schema, packageVersion, changelog: read('CHANGELOG.md') })).toBeUndefined()
})

test('a release must name its build, and later commits must keep it', () => {
  const sources = { schema: { version: 1, build: 'aa' }, packageVersion: '0.1.0' }
  const waiting = { ...sources, changelog: '## [0.1.0] - not released yet\n' }
  const dated = { ...sources, changelog: '## [0.1.0] - 2026-12-01\n' }
  expect(faultOf({ ...waiting, released: {} })).toBeUndefined()
  expect(faultOf({ ...dated, released: {} })).toMatch(/^RELEASED: expected the line 1: 'aa'/)
  expect(faultOf({ ...dated, released: { 1: 'aa' } })).toBeUndefined()
  const next = { changelog: '## [0.1.1] - not released yet\n', packageVersion: '0.1.1', released: { 1: 'aa' } }
  expect(faultOf({ ...next, schema: { version: 1, build: 'bb' } })).toMatch(/^schema\/: expected build aa/)
  expect(faultOf({ ...next, schema: { version: 2, build: 'bb' } })).toBeUndefined()
})

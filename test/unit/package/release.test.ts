import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { faultsOfRelease } from '../../../scripts/release/faults.ts'

const RELEASE = {
  library: { version: '1.2.3', repository: 'git', peerDependencies: { 'sluice-dashboard': '1.2.3' } },
  dashboard: { version: '1.2.3', repository: 'git', peerDependencies: { sluice: '1.2.3' } },
  changelog: '# Changelog\n\n## [1.2.3] - 2026-12-01\n\n### Added\n',
}

test('a tag is released if both packages and the changelog have its version', () => {
  expect(faultsOfRelease('v1.2.3', RELEASE)).toEqual([])
})

test('a tag is refused for each thing that has another version or is missing', () => {
  expect(faultsOfRelease('v1.2.4', RELEASE)).toEqual([
    'package.json: expected version 1.2.4, received 1.2.3',
    'packages/dashboard/package.json: expected version 1.2.4, received 1.2.3',
    'packages/dashboard/package.json: expected the peer sluice 1.2.4, received 1.2.3',
    'package.json: expected the peer sluice-dashboard 1.2.4, received 1.2.3',
    'CHANGELOG.md: expected a heading "## [1.2.4] - <date>", received none',
  ])
  const unnamed = { ...RELEASE, library: { ...RELEASE.library, repository: undefined } }
  expect(faultsOfRelease('v1.2.3', unnamed)).toEqual([
    'package.json: expected the repository, which the provenance names, received none',
  ])
  expect(faultsOfRelease('1.2', RELEASE)).toContain("tag: expected v and three numbers, received '1.2'")
})

test('the two packages of this repository have one version', () => {
  const root = join(import.meta.dirname, '../../..')
  const manifest = (file: string) => JSON.parse(readFileSync(join(root, file), 'utf8'))
  const library = manifest('package.json')
  const faults = faultsOfRelease(`v${library.version}`, {
    library,
    dashboard: manifest('packages/dashboard/package.json'),
    changelog: readFileSync(join(root, 'CHANGELOG.md'), 'utf8'),
  })
  expect(faults.filter((fault) => /version|peer/.test(fault))).toEqual([])
})

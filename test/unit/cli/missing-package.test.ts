import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { INSTALLED_TOGETHER } from '../../../src/cli/work/missing-package.ts'

test('what a missing package is told by are the peer dependencies of package.json, but for the dashboard, which no module imports', () => {
  const { peerDependencies } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    readonly peerDependencies: Readonly<Record<string, string>>
  }
  const peers = Object.keys(peerDependencies).filter((name) => name !== 'sluice-dashboard')
  expect(INSTALLED_TOGETHER.flat().toSorted()).toEqual(peers.toSorted())
})

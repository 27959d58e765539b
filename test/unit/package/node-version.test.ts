import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'
import { checkNode, OLDEST_NODE } from '../../../src/basics/checks/node-version.ts'
import { createSluice } from '../../../src/index.ts'
import { refusalOf } from '../../support/refusal.ts'

test.each(['22.12.0', '22.13.1', '23.0.0', '24.1.0', '100.0.0'])('Node %s will do', (version) => {
  expect(() => checkNode(version)).not.toThrow()
})

test.each(['22.11.0', '20.19.5', '18.0.0', '9.99.0'])('Node %s is too old', (version) => {
  expect(refusalOf(() => checkNode(version))).toBe(
    `NODE_TOO_OLD: Node: expected version 22.12 or later, received ${version}. Upgrade Node`,
  )
})

test('createSluice says so, and connects to nothing', () => {
  vi.stubGlobal('process', { ...process, versions: { ...process.versions, node: '20.20.2' } })
  try {
    const create = () => createSluice({ connection: 'postgres://localhost/nowhere' })
    expect(create).toThrow(expect.objectContaining({ code: 'NODE_TOO_OLD' }))
  } finally {
    vi.unstubAllGlobals()
  }
})

test('package.json says the same', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))
  expect(engines.node).toBe(`>=${OLDEST_NODE}`)
})

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SCENARIOS } from '../../../faults/scenarios/index.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = readFileSync(join(ROOT, 'docs/internals/proof.md'), 'utf8')

/** The last cell of each row that begins with a promise in bold or with a link to the promises of a page. */
const CELLS = [...PAGE.matchAll(/^\| (?:\*\*P|\[).* \| (.*) \|$/gm)].map(([, cell = '']) => cell)

describe('docs/internals/proof.md', () => {
  test('names scenarios of the fault matrix', () => {
    const names = SCENARIOS.map(({ name }) => name)
    const cited = CELLS.flatMap((cell) => cell.split(', '))
    expect(cited.length).toBeGreaterThan(30)
    expect(cited.filter((name) => !names.includes(name))).toEqual([])
  })

  test('has a row for each page that ends with promises', () => {
    const guarantees = readFileSync(join(ROOT, 'docs/reference/guarantees.md'), 'utf8')
    const promised = [...guarantees.matchAll(/^## (P\d)$/gm)].map(([, name]) => name)
    expect([...PAGE.matchAll(/^\| \*\*(P\d)\*\*/gm)].map(([, name]) => name)).toEqual(promised)
    const linked = [...guarantees.matchAll(/\((\S+)#promises\)/g)].map(([, page]) => page)
    expect(linked.filter((page) => !PAGE.includes(`(${page}#promises)`))).toEqual([])
  })
})

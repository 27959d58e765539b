import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fillPage, readResults } from '../../../faults/report/page.ts'
import { summaryOf } from '../../../faults/report/summary.ts'
import { isRight } from '../../../faults/report/table.ts'
import { MODES } from '../../../faults/run/modes.ts'
import { scenariosOf } from '../../../faults/run/run-cells.ts'
import { SCENARIOS } from '../../../faults/scenarios/index.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = readFileSync(join(ROOT, 'docs/internals/reliability.md'), 'utf8')
const RESULTS = readResults(join(ROOT, 'faults/results'))

describe('docs/internals/reliability.md', () => {
  test('says what the results say: npm run faults:page makes it so', () => {
    expect(PAGE).toBe(fillPage(PAGE, RESULTS))
  })

  describe.each(MODES)('in $name mode', (mode) => {
    const { scenarios, twins } = RESULTS[mode.name]
    const promised = scenariosOf(mode, SCENARIOS)

    test('has every scenario, and what was promised then is promised still', () => {
      const shown = summaryOf(scenarios.rows).map(({ scenario, title, recoveryMs }) => ({
        scenario,
        title,
        recoveryMs,
      }))
      expect(shown).toEqual(promised.map(({ name, title, recoveryMs }) => ({ scenario: name, title, recoveryMs })))
    })

    test('has every twin', () => {
      const expected = promised.flatMap(({ twin }) => (twin === undefined ? [] : [twin.title]))
      expect(summaryOf(twins.rows).map(({ twin }) => twin)).toEqual(expected)
    })

    test('shows no fault that was not looked into, and no twin that was not caught', () => {
      expect([...scenarios.rows, ...twins.rows].filter((row) => !isRight(row))).toEqual([])
    })
  })
})

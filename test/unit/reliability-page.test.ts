import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fillPage, readResults } from '../../faults/report/page.ts'
import { summaryOf } from '../../faults/report/summary.ts'
import { isRight } from '../../faults/report/table.ts'
import { MODES } from '../../faults/run/modes.ts'
import { SCENARIOS } from '../../faults/scenarios/index.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/reliability.md'), 'utf8')
const RESULTS = readResults(join(ROOT, 'faults/results'))

describe('docs/reliability.md', () => {
  test('says what the results say: npm run faults:page makes it so', () => {
    expect(PAGE).toBe(fillPage(PAGE, RESULTS))
  })

  test('has every scenario in every mode, and what was promised then is promised still', () => {
    const promised = MODES.flatMap((mode) =>
      SCENARIOS.map(({ name, title, recoveryMs, twin }) => ({
        mode: mode.name,
        scenario: name,
        title,
        recoveryMs,
        twin: twin.title,
      })),
    )
    const shown = (rows: typeof RESULTS.scenarios.rows) =>
      summaryOf(rows).map(({ mode, scenario, title, recoveryMs }) => ({ mode, scenario, title, recoveryMs }))
    expect(shown(RESULTS.scenarios.rows)).toEqual(promised.map(({ twin: _, ...row }) => row))
    expect(summaryOf(RESULTS.twins.rows).map(({ twin }) => twin)).toEqual(promised.map(({ twin }) => twin))
  })

  test('shows no fault that was not looked into, and no twin that was not caught', () => {
    expect([...RESULTS.scenarios.rows, ...RESULTS.twins.rows].filter((row) => !isRight(row))).toEqual([])
  })
})

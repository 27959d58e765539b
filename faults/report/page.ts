import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { markdownTable } from '../../bench/report/markdown.ts'
import { type ModeName, modeNamed } from '../run/modes.ts'
import { inMode, OF_QUEUES } from '../run/scenario.ts'
import { SCENARIOS } from '../scenarios/index.ts'
import { summaryOf } from './summary.ts'
import type { Row } from './table.ts'

/** A run's file, as `npm run faults -- --out` writes it. */
export interface MatrixResult {
  readonly date: string
  readonly commit: string
  readonly server: string
  readonly seed: number
  readonly rows: readonly Row[]
}

/** The runs that the page shows of a mode: of the library, and of what is broken on purpose. */
export interface ModeResults {
  readonly scenarios: MatrixResult
  readonly twins: MatrixResult
}

export type Results = Readonly<Record<ModeName, ModeResults>>

const PART = /<!-- faults:(\w+) -->\n.*?<!-- \/faults:\1 -->/gs

export function readResults(folder: string): Results {
  const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as MatrixResult
  const ofMode = (mode: ModeName) => ({ scenarios: read(`${mode}.json`), twins: read(`${mode}-twins.json`) })
  return { transactional: ofMode('transactional'), leased: ofMode('leased'), stream: ofMode('stream') }
}

/** The page with its generated parts made anew. What is written between them stays. */
export function fillPage(page: string, results: Results): string {
  return page.replaceAll(PART, (_part, name: string) => {
    return `<!-- faults:${name} -->\n\n${partOf(name, results)}\n\n<!-- /faults:${name} -->`
  })
}

function partOf(name: string, results: Results): string {
  const mode = modeNamed(name.replace('_twins', '') as ModeName).name
  const { scenarios, twins } = results[mode]
  return name === mode ? [matrixOf(scenarios), ...leftOutOf(mode)].join('\n\n') : twinsOf(twins)
}

/** Why some scenarios are not in the table. */
function leftOutOf(mode: ModeName): readonly string[] {
  const reasons = SCENARIOS.flatMap((scenario) => {
    const found = inMode(scenario, mode)
    return 'inapplicable' in found && found !== OF_QUEUES ? [{ title: scenario.title, reason: found.inapplicable }] : []
  })
  if (reasons.length === 0) return []
  const rows = reasons.map(({ title, reason }) => [title, reason])
  return [markdownTable(['Not in this table', 'Because'], rows, ['Because'])]
}

function matrixOf(scenarios: MatrixResult): string {
  const summaries = summaryOf(scenarios.rows)
  const number = (value: number) => value.toLocaleString('en')
  const rows = summaries.map((row) =>
    row.missing === undefined
      ? [
          row.title,
          ...[row.injected, row.messages, row.medianMs, row.worstMs, row.recoveryMs].map(number),
          wrong(row.found),
        ]
      : [row.title, '', '', '', '', '', `not run: ${row.missing}`],
  )
  const table = markdownTable(
    [
      'What is injected',
      'Times',
      'Messages',
      'Recovered after (ms): median',
      'worst',
      'promised',
      'Lost, repeated, out of order, stuck, leaked',
    ],
    rows,
    [],
  )
  const total = [
    summaries.reduce((sum, { injected }) => sum + injected, 0),
    summaries.reduce((sum, { messages }) => sum + messages, 0),
  ]
  const rounds = new Set(scenarios.rows.map(({ seed }) => seed)).size
  return `${number(total[0] ?? 0)} faults, ${number(total[1] ?? 0)} messages, ${rounds} ${rounds === 1 ? 'round' : 'rounds'} from seed ${scenarios.seed}; ${whereOf(scenarios)}.\n\n${table}`
}

function wrong(found: readonly string[]): string {
  return found.length === 0 ? 'none' : found.join(', ')
}

function twinsOf(twins: MatrixResult): string {
  const rows = summaryOf(twins.rows).map(({ title, twin = '', found, missing }) => [
    twin,
    title,
    missing === undefined ? [...new Set(found)].join(', ') || '**not caught**' : `not run: ${missing}`,
  ])
  return markdownTable(['Broken on purpose', 'In the scenario', 'The auditor says'], rows, [
    'In the scenario',
    'The auditor says',
  ])
}

function whereOf({ date, commit, server }: MatrixResult): string {
  return `${date.slice(0, 10)}, commit ${commit}, ${server}`
}

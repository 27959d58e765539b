import Table from 'cli-table3'
import type { Outcome } from '../run/run-scenario.ts'
import type { Twin } from '../twins/twins.ts'
import { type Summary, summaryOf } from './summary.ts'

/** One cell of the matrix, with what came of it. */
export interface Row {
  readonly mode: string
  readonly scenario: string
  readonly title: string
  readonly recoveryMs: number
  readonly seed: number
  readonly ms: number
  /** What was broken on purpose. */
  readonly twin?: Twin
  readonly outcome: Outcome | { readonly kind: 'failed'; readonly reason: string }
}

/** Whether it is as it should be: nothing found; of a twin, that it was caught; of what cannot run here, nothing. */
export function isRight({ outcome, twin }: Row): boolean {
  if (outcome.kind === 'failed') return false
  if (outcome.kind === 'missing') return true
  const verdicts = outcome.findings.map(({ verdict }) => verdict)
  return twin === undefined ? verdicts.length === 0 : verdicts.some((verdict) => twin.caught.includes(verdict))
}

/** What came of one cell, for whoever watches the run; in full if it is not as it should be. */
export function lineOf(row: Row): string {
  const [summary] = summaryOf([row])
  if (summary === undefined) throw new TypeError('expected a summary')
  const { scenario, mode, worstMs, recoveryMs, missing } = summary
  const came =
    missing === undefined ? `${verdictOf(summary)}, worst ${worstMs} of ${recoveryMs} ms` : `not here: ${missing}`
  const line = `${mode} ${scenario}: ${came} (seed ${row.seed}, ${Math.round(row.ms / 1_000)} s)`
  return isRight(row) ? `ok   ${line}` : `BAD  ${line}${detailsOf(row)}`
}

/** The matrix for a terminal, and in full what is not as it should be. */
export function tableOf(rows: readonly Row[]): string {
  const table = new Table({
    head: ['scenario', 'mode', 'injected', 'messages', 'recovered: median', 'worst', 'allowed', 'verdict'],
    colAligns: ['left', 'left', 'right', 'right', 'right', 'right', 'right', 'left'],
    style: { head: [], border: [], compact: true },
  })
  for (const summary of summaryOf(rows)) table.push(cellsOf(summary))
  return [table.toString(), ...rows.filter((row) => !isRight(row)).map(detailsOf)].join('\n')
}

function cellsOf(summary: Summary): string[] {
  const { scenario, mode, injected, messages, medianMs, worstMs, recoveryMs, missing } = summary
  if (missing !== undefined) return [scenario, mode, '', '', '', '', '', `not here: ${missing}`]
  const recovered = [medianMs, worstMs, recoveryMs].map((ms) => `${ms} ms`)
  return [scenario, mode, String(injected), String(messages), ...recovered, verdictOf(summary)]
}

function verdictOf({ found, twin }: Summary): string {
  const verdicts = [...new Set(found)].join(', ')
  if (twin === undefined) return verdicts === '' ? 'nothing lost or repeated' : verdicts
  return verdicts === '' ? 'twin not caught' : `twin caught: ${verdicts}`
}

function detailsOf({ scenario, mode, seed, outcome, twin }: Row): string {
  const what = `\n${scenario} (${mode}, seed ${seed}${twin === undefined ? '' : `, twin: ${twin.title}`})`
  if (outcome.kind !== 'judged') return `${what}: ${outcome.kind}: ${outcome.reason}`
  const found = outcome.findings.map(
    ({ verdict, count, examples }) => `\n  ${verdict} (${count}): ${examples.join('; ')}`,
  )
  return `${what}: ${found.length === 0 ? 'nothing found' : found.join('')}`
}

import Table from 'cli-table3'
import type { Finding } from '../auditor/audit.ts'
import type { Outcome } from '../run/run-scenario.ts'
import type { Twin } from '../twins/twins.ts'

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

/** The matrix for a terminal. */
export function tableOf(rows: readonly Row[]): string {
  const table = new Table({
    head: ['scenario', 'injected', 'messages', 'recovered in ms (median, worst, allowed)', 'verdict'],
    style: { head: [], border: [] },
    colWidths: [28, 10, 10, 22, 60],
    wordWrap: true,
  })
  for (const row of rows) table.push([`${row.scenario}\n${row.mode}, seed ${row.seed}`, ...cellsOf(row)])
  return table.toString()
}

function cellsOf(row: Row): string[] {
  const { outcome } = row
  if (outcome.kind !== 'judged') return ['', '', '', `${outcome.kind}: ${outcome.reason}`]
  const injected = outcome.recovery.reduce((sum, recovery) => sum + recovery.injected, 0)
  const worst = Math.max(0, ...outcome.recovery.map(({ worstMs }) => worstMs))
  const medians = outcome.recovery.map(({ medianMs }) => medianMs).sort((a, b) => a - b)
  const median = medians[Math.floor(medians.length / 2)] ?? 0
  return [
    String(injected),
    String(outcome.messages),
    `${median}, ${worst}, ${row.recoveryMs}`,
    verdictOf(row, outcome.findings),
  ]
}

function verdictOf({ twin }: Row, findings: readonly Finding[]): string {
  const found = findings
    .map(({ verdict, count, examples }) => `${verdict} (${count}): ${examples.join('; ')}`)
    .join('\n')
  if (twin === undefined) return found || 'nothing lost, nothing repeated'
  return `${twin.title}: ${found === '' ? 'NOT CAUGHT' : `caught: ${found}`}`
}

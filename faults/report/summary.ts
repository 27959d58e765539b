import type { Row } from './table.ts'

/** All runs of one scenario in one mode. */
export interface Summary {
  readonly scenario: string
  readonly mode: string
  readonly title: string
  readonly recoveryMs: number
  readonly injected: number
  readonly messages: number
  /** Of the injections, or of the runs' medians. */
  readonly medianMs: number
  readonly worstMs: number
  /** Why it did not run here. */
  readonly missing: string | undefined
  /** What was found, as often as it was. */
  readonly found: readonly string[]
  readonly twin: string | undefined
}

/** Rows of several rounds, one summary for each scenario in each mode, in their order. */
export function summaryOf(rows: readonly Row[]): readonly Summary[] {
  const groups = Map.groupBy(rows, ({ mode, scenario }) => `${mode} ${scenario}`)
  return [...groups.values()].map(summarize)
}

function summarize(rows: readonly Row[]): Summary {
  const [first] = rows
  if (first === undefined) throw new TypeError('expected a row')
  const { scenario, mode, title, recoveryMs, twin } = first
  const judged = rows.flatMap(({ outcome }) => (outcome.kind === 'judged' ? [outcome] : []))
  const recoveries = judged.flatMap(({ recovery }) => recovery)
  return {
    scenario,
    mode,
    title,
    recoveryMs,
    injected: sum(recoveries.map(({ injected }) => injected)),
    messages: sum(judged.map(({ messages }) => messages)),
    medianMs: median(recoveries.map(({ medianMs }) => medianMs)),
    worstMs: Math.max(0, ...recoveries.map(({ worstMs }) => worstMs)),
    missing: rows.flatMap(({ outcome }) => (outcome.kind === 'missing' ? [outcome.reason] : []))[0],
    found: rows.flatMap(({ outcome }) => {
      if (outcome.kind === 'failed') return [`failed: ${outcome.reason}`]
      return outcome.kind === 'judged' ? outcome.findings.map(({ verdict }) => verdict) : []
    }),
    twin: twin?.title,
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

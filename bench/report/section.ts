import { type Summary, summarise } from '../statistics.ts'
import { markdownTable } from './markdown.ts'
import type { CellResult, EntryResult, GoalResult } from './result.ts'
import { format } from './table.ts'
import { CEILINGS, YARDSTICKS } from './yardsticks.ts'

/** A cell's numbers, goals and picture, for the page. */
export function sectionOf(result: CellResult): string {
  const { name, title, measures, environment, goals, pictures = {}, without = {} } = result
  const notAsked = Object.entries(without).map(([contestant, reason]) => `${contestant} (${reason})`)
  return [
    `**${title}.** ${measures}.`,
    ...(environment.scale === 'quick' ? ['**A quick look**, with far fewer messages: not to be quoted.'] : []),
    `![${title}](../../bench/results/${name}.svg)`,
    ...Object.entries(pictures).map(
      ([picture, { y }]) => `![${title}: ${y}](../../bench/results/${name}-${picture}.svg)`,
    ),
    numbersOf(result),
    goals.map((goal) => goalLine(goal, result)).join('\n'),
    ...(notAsked.length === 0 ? [] : [`Not asked: ${notAsked.join('; ')}.`]),
  ].join('\n\n')
}

/** What becomes of a handler's writes when its process dies. In full it stands in each result. */
const GUARANTEES: Readonly<Record<string, string>> = {
  sluice: 'exactly once',
  'sluice-without-trigger': 'exactly once',
  'sluice-transactional': 'exactly once',
  'sluice-before': 'exactly once',
  'raw-loop': 'exactly once, no retries',
  'raw-loop-kept-plans': 'exactly once, no retries',
  'leased-loop': 'at least once, no retries',
  'listen-loop': 'none',
  pgbench: 'none',
  'pg-boss': 'at least once',
  'pg-boss-delete': 'at least once',
  'graphile-worker': 'at least once',
  'graphile-worker-local-queue': 'at least once',
  'raw-log': 'exactly once, no retries',
  'raw-select': 'none',
  'pg-boss-publish': 'at least once',
  pgq: 'exactly once',
}

/** Where its handlers write in the transaction that completes the jobs. */
const WITH_COMPLETION = 'committed with the completion, by batch'

/** In leased mode. */
const LEASED = 'at least once; exactly once by `transaction()`'

function guaranteeOf({ contestant, guarantee, case: name }: EntryResult, cell: string): string {
  if (cell.startsWith('effects') && contestant.startsWith('pg-boss')) return WITH_COMPLETION
  const leased =
    cell.startsWith('leased') || cell.startsWith('long-leased') || (cell === 'latency-load' && name.endsWith('20 ms'))
  if (leased && contestant === 'sluice') return LEASED
  return GUARANTEES[contestant] ?? guarantee
}

/** Names of metrics beside the cell's own. */
const METRICS: Readonly<Record<string, string>> = {
  p90: 'p90',
  p99: 'p99',
  most: 'slowest',
  cpuPercent: '% of a core',
  before: 'MiB before',
  lastOverSecondTenth: 'last ÷ second tenth',
  firstTenth: 'first tenth, messages/s',
  lastTenth: 'last tenth, messages/s',
  tenths: 'tenths reached',
  settleP50: 'p50 to the commit, ms',
  settleP99: 'p99 to the commit, ms',
  settleMost: 'slowest commit, ms',
  rss: 'MiB at most',
  claimMs: 'ms per claim',
  renewals: 'renewals',
  renewed: 'leases per renewal',
  renewalMs: 'ms per renewal',
  least: 'fastest',
  firstP99: 'p99 of the first seconds',
  sentP99: 'p99 until it is sent',
  slowest: 'slowest ten seconds',
  secondOverFirst: 'second ÷ first half',
  size: 'MiB of tables at most',
}

interface Column {
  readonly head: string
  readonly left?: true
  readonly cell: (entry: EntryResult) => string
}

function numbersOf(result: CellResult): string {
  const { entries } = result
  const columns = columnsOf(result)
  const rows = entries.map((entry) => columns.map(({ cell }) => cell(entry)))
  const left = columns.filter((column) => column.left).map(({ head }) => head)
  return markdownTable(
    columns.map(({ head }) => head),
    rows,
    left,
  )
}

function columnsOf({ name, entries, metric }: CellResult): readonly Column[] {
  const others = [...new Set(entries.flatMap(({ metrics }) => Object.keys(metrics)))].filter((it) => it !== metric.name)
  const hasCases = entries.some((entry) => entry.case !== '')
  const hasRatios = entries.some(({ sluiceOver }) => sluiceOver !== undefined)
  return [
    { head: '', cell: titleOf },
    ...(hasCases ? [{ head: 'Variant', left: true, cell: (entry: EntryResult) => entry.case } as const] : []),
    { head: metric.unit, cell: (entry) => medianOf(entry, metric.name) },
    { head: 'least – most', cell: ({ metrics }) => spread(metrics[metric.name]) },
    ...(hasRatios ? [{ head: 'Sluice ÷ this', cell: ({ sluiceOver }: EntryResult) => withSpread(sluiceOver) }] : []),
    ...others.map((other) => ({
      head: METRICS[other] ?? other,
      cell: ({ metrics }: EntryResult) => format(metrics[other]?.median ?? Number.NaN),
    })),
    { head: 'Effects in the database', left: true, cell: (entry) => guaranteeOf(entry, name) },
  ]
}

function titleOf({ contestant, title }: EntryResult): string {
  return contestant === 'sluice' ? `**${title}**` : title
}

function medianOf({ contestant, metrics, samples }: EntryResult, metric: string): string {
  const failures = samples.flatMap((sample) => ('failed' in sample ? [sample.failed] : []))
  const failed = failures.length === 0 ? [] : [`failed ${failures.length}×: ${failures[0]?.split('\n')[0]}`]
  const median = metrics[metric]?.median
  if (median === undefined) return failed.join('')
  return [contestant === 'sluice' ? `**${format(median)}**` : format(median), ...failed].join(', ')
}

function spread(summary: Summary | undefined): string {
  return summary === undefined ? '' : `${format(summary.min)} – ${format(summary.max)}`
}

function withSpread(summary: Summary | undefined): string {
  return summary === undefined ? '' : `${format(summary.median)} (${spread(summary)})`
}

function goalLine(goal: GoalResult, result: CellResult): string {
  // Undefined is not in a file.
  const value: Summary | undefined = goal.value
  if (value === undefined) return unmeasuredLine(goal, result)
  const line = `- ${goal.met ? '✓ Goal met' : '✗ Goal missed'}: ${goal.text}. Measured: ${withSpread(value)}`
  return [line, ...ceilingNote(goal, result), ...sharedMiss(goal, result)].join('. ')
}

/** A contestant that failed in every round has missed the goal. */
function unmeasuredLine({ of, text }: GoalResult, { entries }: CellResult): string {
  const found = entries.find((entry) => entry.contestant === of.contestant && entry.case === (of.case ?? ''))
  const failures = found?.samples.map((sample) => ('failed' in sample ? sample.failed : undefined)) ?? []
  const [failure] = failures
  if (failure === undefined || failures.includes(undefined)) return `- ? Goal: ${text}. Not measured`
  return `- ✗ Goal missed: ${text}. It failed: ${failure.split('\n')[0]}`
}

/** A goal over another queue that even the faster loop by hand does not reach. */
function ceilingNote({ over, atLeast }: GoalResult, result: CellResult): readonly string[] {
  if (over === undefined || atLeast === undefined || [...YARDSTICKS, 'sluice'].includes(over.contestant)) return []
  const divisors = roundsOf(over.contestant, over.case, result)
  const [best] = CEILINGS.flatMap((name) => ratioOver(divisors, roundsOf(name, over.case, result)) ?? []).sort(
    (one, other) => other.median - one.median,
  )
  if (best === undefined || best.median >= atLeast) return []
  return [`Out of reach here: the fastest loop by hand has ${withSpread(best)} × ${over.contestant}`]
}

/** A bound for Sluice alone that the loop by hand misses as well. */
function sharedMiss(
  { of, over, atLeast, atMost, met }: GoalResult,
  { entries, metric }: CellResult,
): readonly string[] {
  if (over !== undefined || met !== false) return []
  const loop = entries.find((entry) => entry.contestant === 'raw-loop' && entry.case === (of.case ?? ''))
  const found = loop?.metrics[of.metric ?? metric.name]
  if (found === undefined) return []
  const misses = found.median < (atLeast ?? found.median) || found.median > (atMost ?? found.median)
  return misses ? [`The loop by hand misses it too: ${withSpread(found)}`] : []
}

type Rounds = readonly (number | undefined)[]

/** A contestant's number in each round; undefined where it failed. */
function roundsOf(contestant: string, name: string | undefined, { entries, metric }: CellResult): Rounds {
  const found = entries.find((entry) => entry.contestant === contestant && entry.case === (name ?? ''))
  return found?.samples.map((sample) => ('metrics' in sample ? sample.metrics[metric.name] : undefined)) ?? []
}

function ratioOver(divisors: Rounds, values: Rounds): Summary | undefined {
  const ratios = values.flatMap((value, round) => {
    const divisor = divisors[round]
    return value === undefined || !divisor ? [] : [value / divisor]
  })
  return ratios.length === 0 ? undefined : summarise(ratios)
}

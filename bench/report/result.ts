import type { Cell, Goal, Metric, Place } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import type { Entry } from '../run/rounds.ts'
import type { Sample } from '../run/sample.ts'
import { type Summary, summarise } from '../statistics.ts'
import type { Environment } from './environment.ts'

/** All that is known of a cell after a run: the content of its file. */
export interface CellResult
  extends Pick<Cell, 'name' | 'title' | 'measures' | 'metric' | 'series' | 'pictures' | 'without'> {
  readonly environment: Environment
  readonly rounds: number
  readonly entries: readonly EntryResult[]
  readonly goals: readonly GoalResult[]
}

export interface EntryResult extends Pick<Contestant, 'guarantee'> {
  readonly contestant: string
  readonly title: string
  /** How it was set up, by what it was to do. */
  readonly configuration: Readonly<Record<string, string>>
  readonly case: string
  /** Over the rounds in which it did not fail. */
  readonly metrics: Readonly<Record<string, Summary>>
  /** Sluice's number over this one's, within a round and a case. */
  readonly sluiceOver?: Summary
  readonly samples: readonly Sample[]
}

export interface GoalResult extends Goal {
  readonly text: string
  /** Of the numbers, or of the ratios within one round; undefined if there is no round that has them. */
  readonly value: Summary | undefined
  readonly met: boolean | undefined
}

export function toResult(
  cell: Cell,
  entries: readonly Entry[],
  run: { readonly environment: Environment; readonly rounds: number },
): CellResult {
  const { name, title, measures, metric, series, pictures, without = {} } = cell
  return {
    name,
    title,
    measures,
    metric,
    ...(series && { series }),
    ...(pictures && { pictures }),
    without,
    ...run,
    entries: entries.map((entry) => toEntryResult(entry, metric, entries)),
    goals: cell.goals.map((goal) => toGoalResult(goal, metric, entries)),
  }
}

function toEntryResult(entry: Entry, metric: Metric, entries: readonly Entry[]): EntryResult {
  const { contestant, case: name, samples } = entry
  const good = samples.flatMap((sample) => ('metrics' in sample ? [sample.metrics] : []))
  const names = Object.keys(good[0] ?? {})
  const [sluice, own] = [
    { contestant: 'sluice', case: name },
    { contestant: contestant.name, case: name },
  ]
  const sluiceOver = ratioOf({ of: sluice, over: own }, metric, entries)
  return {
    contestant: contestant.name,
    title: contestant.title,
    guarantee: contestant.guarantee,
    configuration: configurationOf(contestant),
    case: name,
    metrics: Object.fromEntries(
      names.map((found) => [found, summarise(good.flatMap((metrics) => metrics[found] ?? []))]),
    ),
    ...(contestant.name !== 'sluice' && sluiceOver !== undefined && { sluiceOver }),
    samples,
  }
}

function configurationOf(contestant: Contestant): EntryResult['configuration'] {
  const { drains, consumes, leases, listens, enqueues, appends, follows, idles } = contestant
  const capabilities = Object.entries({ drains, consumes, leases, listens, enqueues, appends, follows, idles })
  return Object.fromEntries(capabilities.flatMap(([name, found]) => (found ? [[name, found.configuration]] : [])))
}

function toGoalResult(goal: Goal, metric: Metric, entries: readonly Entry[]): GoalResult {
  const value = ratioOf(goal, metric, entries)
  return { ...goal, text: goalText(goal, metric), value, met: value && isMet(goal, value.median) }
}

/** The number in each round, or its ratio to another of the same round. */
function ratioOf(
  { of, over }: Pick<Goal, 'of' | 'over'>,
  metric: Metric,
  entries: readonly Entry[],
): Summary | undefined {
  const divisors = over === undefined ? undefined : valuesAt(over, metric, entries)
  const values = valuesAt(of, metric, entries).flatMap((value, round) => {
    const divisor = divisors === undefined ? 1 : divisors[round]
    return value === undefined || !divisor ? [] : [value / divisor]
  })
  return values.length === 0 ? undefined : summarise(values)
}

function isMet(
  { atLeast = Number.NEGATIVE_INFINITY, atMost = Number.POSITIVE_INFINITY }: Goal,
  value: number,
): boolean {
  return value >= atLeast && value <= atMost
}

/** The place's number in each round; undefined where it failed. */
function valuesAt(place: Place, metric: Metric, entries: readonly Entry[]): readonly (number | undefined)[] {
  const { contestant, case: name = '', metric: named = metric.name } = place
  const found = entries.find((entry) => entry.contestant.name === contestant && entry.case === name)
  return (found?.samples ?? []).map((sample) => ('metrics' in sample ? sample.metrics[named] : undefined))
}

function goalText({ of, over, atLeast, atMost }: Goal, metric: Metric): string {
  const bounds = [
    ...(atLeast === undefined ? [] : [`≥ ${atLeast}`]),
    ...(atMost === undefined ? [] : [`≤ ${atMost}`]),
  ].join(' and ')
  const unit = over === undefined ? '' : ` × ${placeText(over, metric)}`
  return `${placeText(of, metric)} ${bounds}${unit}`
}

function placeText({ contestant, case: name, metric: named }: Place, metric: Metric): string {
  const details = [name, named === metric.name ? undefined : named].filter(Boolean)
  return details.length === 0 ? contestant : `${contestant} (${details.join(', ')})`
}

import type { Contestant, FillSpec } from './contestant.ts'

/** One question, asked of several contestants on the same server in turn. */
export interface Cell {
  /** As in `--only`, and the name of its files. */
  readonly name: string
  readonly title: string
  /** What is measured, from which moment to which. */
  readonly measures: string
  /** The metric that the chart shows; others are in the table and in the file. */
  readonly metric: Metric
  /** What the series of the samples are, if there are any: the chart shows them where there is one case. */
  readonly series?: SeriesAxes
  /** What its samples have in `pictures`, by name: each has a chart of its own, `<cell>-<name>.svg`. */
  readonly pictures?: Readonly<Record<string, SeriesAxes>>
  /** Samples of ten minutes: it runs only with `--long`, on a server with its checkpoints as they come. */
  readonly long?: true
  readonly cases: readonly Case[]
  /** Who can answer. */
  readonly asks: (contestant: Contestant) => boolean
  /** Who could, but is not asked, and why. */
  readonly without?: Readonly<Record<string, string>>
  readonly goals: readonly Goal[]
  /** How many rounds are enough, where a round takes long. */
  readonly mostRounds?: number
}

export interface Metric {
  readonly name: string
  readonly unit: string
  readonly better: 'more' | 'less'
}

export interface SeriesAxes {
  readonly x: string
  readonly y: string
  readonly scale: 'value' | 'log'
}

/** A variant of the question; most cells have one, without a name. */
export interface Case {
  readonly name: string
  /** Left out of a quick run. */
  readonly slow?: true
  /** What is there before the sample starts. */
  readonly fill: (scale: Scale) => FillSpec
  /** Measures, in a fresh process. */
  readonly measure: (context: SampleContext) => Promise<Measured>
}

/** A number for a full run, and a small one for a quick look. */
export interface Size {
  readonly full: number
  readonly quick: number
}

export type Scale = keyof Size

export interface SampleContext {
  readonly contestant: Contestant
  readonly url: string
  readonly scale: Scale
}

/** What a sample gives. The harness then looks whether the contestant's tables agree. */
export interface Measured {
  readonly metrics: Readonly<Record<string, number>>
  /** How the number went on over the sample, for charts. */
  readonly series?: readonly number[]
  /** The same of what else is drawn, by its name in the cell. */
  readonly pictures?: Readonly<Record<string, readonly number[]>>
  /** How many messages must be unsettled afterwards. */
  readonly left: number
  /** How many rows handlers must have written to bench.effect. */
  readonly effects?: number
}

/** A bound for one number, or for its ratio to another of the same round; the median over the rounds counts. */
export interface Goal {
  readonly of: Place
  readonly over?: Place
  readonly atLeast?: number
  readonly atMost?: number
}

/** Where a number stands: the cell's own metric if none is named. */
export interface Place {
  readonly contestant: string
  readonly case?: string
  readonly metric?: string
}

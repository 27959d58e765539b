import type { Contestant } from './contestant.ts'

/** One question, asked of several contestants on the same server in turn. */
export interface Cell {
  /** As in `--only`, and the name of its files. */
  readonly name: string
  readonly title: string
  /** What is measured, from which moment to which. */
  readonly measures: string
  /** The metric that the chart shows; others are in the table and in the file. */
  readonly metric: Metric
  readonly cases: readonly Case[]
  readonly contestants: readonly string[]
  readonly goals: readonly Goal[]
}

export interface Metric {
  readonly name: string
  readonly unit: string
  readonly better: 'more' | 'less'
}

/** A variant of the question; most cells have one, without a name. */
export interface Case {
  readonly name: string
  /** How many messages are there before the sample starts. */
  readonly filled: Size
  /** Measures, in a fresh process. */
  measure(context: SampleContext): Promise<Measured>
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

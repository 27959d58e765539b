import type { Load } from '../actors/producer-process.ts'
import type { WorkerSetup } from '../actors/worker-process.ts'
import type { Twin } from '../twins/twins.ts'
import type { Environment } from './environment.ts'
import type { Stage } from './stage.ts'

/** One row of the matrix: a fault, what it is injected into, and how soon all must be well again. */
export interface Scenario<E extends Environment = Environment> {
  readonly name: string
  /** What is done, for people. */
  readonly title: string
  /** How long after the end of a fault all that was committed by then must have been handled, in milliseconds. */
  readonly recoveryMs: number
  /** How often it is injected, in a quick run and in a full one. */
  readonly injections: { readonly quick: number; readonly full: number }
  /** Processes die or hang: a death with a message in hand counts as an attempt. */
  readonly deathsCount?: boolean
  /** Where it runs, or why it cannot run here. @default a database on the run's server */
  readonly environment?: (serverUrl: string) => Promise<E | { readonly missing: string }>
  readonly load?: Partial<Load>
  /** How many messages must take effect before the first fault and after each. @default 20 */
  readonly flow?: number
  readonly workers?: WorkerOptions
  /** A library, a schema or a set-up that is broken on purpose: the auditor must find it. */
  readonly twin: Twin
  /** Before the first process starts. */
  readonly prepare?: (stage: Stage<E>) => Promise<void>
  /** Injects once, while producers enqueue and workers handle. */
  readonly inject: (stage: Stage<E>, at: number) => Promise<void>
}

/** What the fleet of a scenario is like. */
export interface WorkerOptions extends Partial<Pick<WorkerSetup, 'pipeline' | 'pollIntervalMs' | 'wholeBatches'>> {
  readonly count?: number
  /** Whether a worker that ends is replaced at once, as an orchestrator does. */
  readonly kept?: boolean
  /** Whether each worker, and the producer, has a network of its own that can fail. */
  readonly network?: boolean
}

/** For the list of all scenarios, which does not care where each of them runs. */
export function scenario<E extends Environment = Environment>(spec: Scenario<E>): Scenario {
  return spec as unknown as Scenario
}

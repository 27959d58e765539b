import type { LeasedPipelineOptions, PipelineOptions } from '../../src/index.ts'
import type { Load } from '../actors/producer-process.ts'
import type { WorkerSetup } from '../actors/worker-orders.ts'
import type { Edit, Twin } from '../twins/twins.ts'
import type { Environment } from './environment.ts'
import type { ModeName } from './modes.ts'
import type { Stage } from './stage.ts'

/** What may differ between modes: what is promised, and what the fault is injected into. */
export interface Promises {
  /** What is done, for people. */
  readonly title: string
  /** How long after the end of a fault all that was committed by then must have been handled, in milliseconds. */
  readonly recoveryMs: number
  /** How often it is injected, in a quick run and in a full one. */
  readonly injections: { readonly quick: number; readonly full: number }
  /**
   * The fault may cost a message attempts: a process dies or hangs with it in hand, or, in leased mode, the transaction
   * of its handler breaks, which fails the handler.
   */
  readonly costsAttempts?: boolean
  readonly load?: Partial<Load>
  readonly workers?: WorkerOptions
}

/** What is otherwise in a mode. */
export interface Otherwise extends Partial<Promises> {
  /** Breaks what only this mode has. */
  readonly twin?: Twin
}

/** Why a scenario says nothing about a mode. */
export interface Inapplicable {
  readonly inapplicable: string
}

/** One row of the matrix: a fault, what it is injected into, and how soon all must be well again. */
export interface Scenario<E extends Environment = Environment> extends Promises {
  readonly name: string
  /** The mode that it is made for, in which its twin runs. @default 'transactional' */
  readonly mode?: ModeName
  /** What is otherwise with the groups of a stream. @default it does not apply there */
  readonly stream?: Otherwise
  /** What is otherwise in the other mode of a queue, or why it does not apply there. */
  readonly otherwise?: Otherwise | Inapplicable
  /** Where it runs, or why it cannot run here. @default a database on the run's server */
  readonly environment?: (serverUrl: string) => Promise<E | { readonly missing: string }>
  /** How many messages must take effect before the first fault and after each. @default 20 */
  readonly flow?: number
  /** A library, a schema or a set-up that is broken on purpose: the auditor must find it. */
  readonly twin: Twin
  /** Before the first process starts. */
  readonly prepare?: (stage: Stage<E>) => Promise<void>
  /** Injects once, while producers enqueue and workers handle. */
  readonly inject: (stage: Stage<E>, at: number) => Promise<void>
}

/** A scenario as it runs in a mode: its twin may be of code that this mode does not use. */
export interface ScenarioInMode extends Omit<Scenario, 'mode' | 'otherwise' | 'stream' | 'twin'> {
  readonly twin: Twin | undefined
}

/** The scenario with what it promises in this mode, or why it does not apply there. */
export function inMode(made: Scenario, name: ModeName): ScenarioInMode | Inapplicable {
  const { mode = 'transactional', stream = OF_QUEUES, ...rest } = made
  const { otherwise: other = {}, ...own } = rest
  if (name === mode) return own
  const otherwise = name === 'stream' ? stream : other
  if ('inapplicable' in otherwise) return otherwise
  return {
    ...own,
    ...otherwise,
    load: { ...own.load, ...otherwise.load },
    workers: { ...own.workers, ...otherwise.workers },
    twin: otherwise.twin,
  }
}

/** Of most scenarios, so tables leave it out. */
export const OF_QUEUES: Inapplicable = {
  inapplicable: 'it is about queues, or about what streams have in common with them',
}

/** What the fleet of a scenario is like. */
export interface WorkerOptions
  extends Partial<
    Pick<WorkerSetup, 'pollIntervalMs' | 'maintenanceIntervalMs' | 'wholeBatches' | 'effects' | 'lingerMs' | 'flakySdk'>
  > {
  readonly pipeline?: Omit<PipelineOptions, 'mode'> & Omit<LeasedPipelineOptions, 'mode'>
  readonly count?: number
  /** What is otherwise in the library of all workers, broken or not: times that no run can wait for. */
  readonly edits?: readonly Edit[]
  /** What the processes run. @default a program that calls the library */
  readonly program?: 'sluice work'
  /** Half of the workers, or nearly, have the other mode. */
  readonly bothModes?: boolean
  /** Whether a worker that ends is replaced at once, as an orchestrator does. */
  readonly kept?: boolean
  /** Whether each worker, and the producer, has a network of its own that can fail. */
  readonly network?: boolean
}

/** For the list of all scenarios, which does not care where each of them runs. */
export function scenario<E extends Environment = Environment>(spec: Scenario<E>): Scenario {
  return spec as unknown as Scenario
}

import type { Gate } from '../basics/promises/gate.ts'
import type { Use } from '../connection/seats.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { HandlerRuntime } from '../handle/consumption.ts'
import type { SourceRuntime } from '../source/rules-of.ts'
import type { Connections } from '../transaction/check-out.ts'
import type { Sleepers } from '../wake-up/sleepers.ts'
import type { Cancellations } from './cancellations.ts'

/** What every consumer of a process shares. */
export interface Runtime extends HandlerRuntime, SourceRuntime {
  /** The connections for each use. */
  readonly connections: Readonly<Record<Use, Connections>>
  /** Does work with new connections: an idle one of the pool may be as dead as one that was lost. */
  readonly apart: <T>(work: (connections: Connections) => Promise<T>) => Promise<T>
  readonly connectTimeoutMs: number
  readonly sleepers: Sleepers
  readonly inHand: InHand
  readonly gate: Gate
  readonly cancellations: Cancellations
}

import type pg from 'pg'
import type { Gate } from '../basics/gate.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { HandlerRuntime } from '../handle/consumption.ts'
import type { SourceRuntime } from '../source/rules-of.ts'
import type { Sleepers } from '../wake-up/sleepers.ts'
import type { Cancellations } from './cancellations.ts'

/** What every consumer of a process shares. */
export interface Runtime extends HandlerRuntime, SourceRuntime {
  readonly pool: pg.Pool
  /** Another pool of the same kind. */
  readonly createPool: () => pg.Pool
  readonly connectTimeoutMs: number
  readonly sleepers: Sleepers
  readonly inHand: InHand
  readonly gate: Gate
  readonly cancellations: Cancellations
}

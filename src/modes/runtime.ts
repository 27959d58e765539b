import type pg from 'pg'
import type { Gate } from '../basics/gate.ts'
import type { Control } from '../connection/control.ts'
import type { InHand } from '../crash/in-hand.ts'
import type { HandlerRuntime } from '../handle/consumption.ts'
import type { RetryPolicies } from '../retry-policy.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { Settings } from '../settings/settings.ts'
import type { Sleepers } from '../wake-up/sleepers.ts'
import type { Cancellations } from './cancellations.ts'

/** What every consumer of a process shares. */
export interface Runtime extends HandlerRuntime {
  readonly pool: pg.Pool
  /** Another pool of the same kind. */
  readonly createPool: () => pg.Pool
  readonly connectTimeoutMs: number
  readonly alphabet: Alphabet
  readonly control: Control
  readonly sleepers: Sleepers
  /** What queues have been told. */
  readonly settings: Settings
  /** Those that have names. */
  readonly retryPolicies: RetryPolicies | undefined
  readonly inHand: InHand
  readonly serverVersion: () => number
  /** As the database can hold it. */
  readonly workerName: () => string
  /** The same, if the queue keeps a history of what has succeeded. */
  readonly historyBy: (queue: string) => string | undefined
  readonly gate: Gate
  readonly cancellations: Cancellations
}

import type { SluiceConfig } from '../config.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { Meters } from '../statistics/meters.ts'
import type { Report } from '../telemetry/events.ts'
import type { Instruments } from '../telemetry/instrument.ts'
import type { Sends } from '../telemetry/sends.ts'
import type { ConnectionPlan } from './connection-plan.ts'

/** What all parts of a Sluice share. */
export interface Shared {
  readonly config: SluiceConfig
  readonly alphabet: Alphabet
  /** How its connections are shared out. */
  readonly connections: ConnectionPlan
  readonly meters: Meters
  readonly instruments: Instruments
  readonly sends: Sends
  readonly report: Report
}

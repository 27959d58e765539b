import type { Observable } from 'rxjs'
import type { Duration } from '../basics/duration.ts'
import type { Demand } from '../demand/demand.ts'
import type { Work } from '../handle/batch-run-options.ts'
import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { SettledMessage } from '../settle/settled-messages.ts'
import type { Meter } from '../statistics/meter.ts'
import type { Report, SluiceEvent } from '../telemetry/events.ts'

/** What a pipeline needs of the process that it runs in. */
export interface PipelineHost {
  readonly plan: PipelinePlan
  /** Connects if need be, and handles what is due. */
  readonly runOnce: (work: Work, onSettled: (settled: readonly SettledMessage[]) => void) => Promise<void>
  /** Makes its demand, which does not run yet, once the process is connected, or rejects when the signal aborts. */
  readonly awaitDemand: (what: PipelineWork, signal: AbortSignal) => Promise<Demand>
  readonly events: Observable<SluiceEvent>
  readonly report: Report
  readonly opened: (pipeline: Drainable) => void
  readonly closed: (pipeline: Drainable) => void
}

/** What one of its consumers does, and who hears of it. */
export interface PipelineWork {
  readonly work: Work
  readonly meter: Meter
  readonly onFailed: ((error: unknown, message: Message) => void) | undefined
}

/** A pipeline that runs, as the process sees it. */
export interface Drainable {
  drain(options: { readonly timeout?: Duration | undefined }): Promise<unknown>
}

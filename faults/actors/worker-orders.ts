import type { LeasedPipelineOptions, PipelineOptions, SluiceEvent } from '../../src/index.ts'
import type { Outside } from '../run/environment.ts'

export interface WorkerSetup {
  readonly name: string
  /** The way of the batches' connections, and of the two others, if another. */
  readonly url: string
  readonly directUrl?: string | undefined
  readonly ledgerUrl: string
  readonly queue: string
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
  /** `queue` is a stream, of which it is a member of these groups. */
  readonly groups?: readonly string[] | undefined
  /** Where it takes the load to, in place of handling it. */
  readonly outside?: Outside | undefined
  readonly pollIntervalMs?: number | undefined
  readonly maintenanceIntervalMs?: number | undefined
  readonly wholeBatches?: boolean | undefined
  /** Where leased handlers write their effects: in their own transaction, or elsewhere, and then they return. */
  readonly effects?: 'in its transaction' | 'elsewhere' | undefined
  /** How long a handler takes, in milliseconds. @default no time */
  readonly lingerMs?: number | undefined
  /** Its Sluice has an SDK of OpenTelemetry that throws and is slow. */
  readonly flakySdk?: boolean | undefined
  /** What its handlers need not wait for. */
  readonly going: readonly Go[]
}

/** An attempt of a message that is held, or any of its attempts. */
export interface Go {
  readonly id: string
  readonly attempt?: number
}

/**
 * A moment in which a worker can be told to send itself a signal. Of an inbox: it has received a batch; it has stored a batch,
 * and acks it now.
 */
export type Moment = 'claimed' | 'handling' | 'effects' | 'received' | 'stored'

export type WorkerOrder =
  | { readonly kind: 'start'; readonly setup: WorkerSetup }
  | { readonly kind: 'signal'; readonly signal: 'SIGKILL' | 'SIGSTOP' | 'SIGTERM'; readonly at: Moment }
  | { readonly kind: 'go'; readonly going: readonly Go[] }
  /** Blocks its event loop. */
  | { readonly kind: 'block'; readonly ms: number }
  /** Steps the clock of its process, which `Date` tells. */
  | { readonly kind: 'step'; readonly ms: number }
  | { readonly kind: 'stop'; readonly timeoutMs?: number }
  /** Changes how much it may have in flight. */
  | { readonly kind: 'concurrency'; readonly to: number }

export type WorkerNews =
  | { readonly kind: 'consuming' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'event'; readonly event: SluiceEvent['kind']; readonly role: string | undefined }

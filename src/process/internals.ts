import { HandedMessage } from '../claim/handed-message.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { expected } from '../errors.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { Message } from '../message.ts'
import type { Report } from '../telemetry/events.ts'
import type { Instruments } from '../telemetry/instrument.ts'
import type { BatchPools } from './batch-pools.ts'
import type { CurrentWorker } from './current-worker.ts'

/** What only `sluice/testing`, `sluice/http` and `sluice/otel` need of a Sluice. */
export interface SluiceInternals {
  readonly report: Report
  readonly pools: () => Promise<BatchPools>
  readonly worker: () => Promise<CurrentWorker>
  readonly enqueueContext: EnqueueContext
  readonly enqueueIn: EnqueueIn
  readonly instruments: Instruments
}

/** @throws SluiceError OPTION_INVALID if it is not a Sluice */
export function internalsOf(sluice: object): SluiceInternals {
  const found = internals.get(sluice)
  if (found === undefined) throw expected('OPTION_INVALID', 'sluice', 'what createSluice returned', sluice)
  return found
}

/** Called by each Sluice for itself. */
export function shareInternals(sluice: object, own: SluiceInternals): void {
  internals.set(sluice, own)
}

const internals = new WeakMap<object, SluiceInternals>()

/** The payload and the headers of a message as they are stored: JSON text. */
export function storedOf(message: Message): { readonly payload: string; readonly headers: string } {
  return HandedMessage.storedOf(message)
}

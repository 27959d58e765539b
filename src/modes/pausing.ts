import type { DemandOptions } from '../demand/demand.ts'
import type { Runtime } from './runtime.ts'

/** What a demand needs to be paused with its queue, and reports of it. */
export function pausing(
  { settings, report }: Runtime,
  queue: string,
): Pick<DemandOptions, 'settings' | 'onPaused' | 'onResumed'> {
  return {
    settings,
    onPaused: (pause) =>
      report({ kind: 'pipeline.paused', queue, by: pause?.by ?? null, reason: pause?.reason ?? null }),
    onResumed: () => report({ kind: 'pipeline.resumed', queue }),
  }
}

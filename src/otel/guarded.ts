import { diag } from '@opentelemetry/api'

/** A sampler, a processor or an exporter of the user's that throws must not disturb the queue. */
export function guarded<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    diag.error('sluice/otel', error)
    return undefined
  }
}

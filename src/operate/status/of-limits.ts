import { durationWords } from '../../basics/time/duration-words.ts'
import type { LimitStatus } from '../../table/operate/queues/limit-status.ts'
import type { Attention } from './attention.ts'

/** Of the queues whose messages wait for a limit: of the queue, and of tenants. */
export function attentionToLimits(limits: readonly LimitStatus[]): readonly Attention[] {
  const used = limits.filter(isUsedUp)
  const ofQueues = used.filter(({ tenant }) => tenant === null)
  return [...ofQueues.map(limitedQueue), ...limitedTenants(used)]
}

/** Messages wait, and as many are in flight, or have begun, as may. */
export function isUsedUp({ concurrency, inFlight, tokens, ready }: LimitStatus): boolean {
  return ready > 0 && ((concurrency !== null && inFlight >= concurrency) || (tokens !== null && tokens < 1))
}

function limitedQueue({ queue, ready, concurrency, inFlight, rate, rateIntervalMs, tokens }: LimitStatus): Attention {
  const limit =
    tokens !== null && tokens < 1
      ? `rate ${rate} per ${durationWords(rateIntervalMs)}`
      : `concurrency ${concurrency}, ${inFlight} in flight`
  return limited(queue, ready, `the limit: ${limit}`)
}

/** One for each queue: it may have thousands of tenants. */
function limitedTenants(used: readonly LimitStatus[]): readonly Attention[] {
  const byQueue = Map.groupBy(
    used.filter(({ tenant }) => tenant !== null),
    ({ queue }) => queue,
  )
  return [...byQueue].map(([queue, tenants]) => {
    const messages = tenants.reduce((sum, { ready }) => sum + ready, 0)
    const [first] = tenants
    const who = tenants.length === 1 ? `tenant ${first?.tenant}` : `${tenants.length} tenants, such as ${first?.tenant}`
    return limited(queue, messages, `the limit of ${who}`)
  })
}

function limited(queue: string, messages: number, limit: string): Attention {
  const text = `${messages} ready wait for ${limit}`
  const remedy = `npx sluice queue get ${queue}`
  return { kind: 'queues.limited', severity: 'watch', subject: queue, queue, messages, text, remedy }
}

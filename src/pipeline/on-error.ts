import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { expected, toError } from '../errors.ts'
import type { Message } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Report } from '../telemetry/events.ts'

/** What the option `onError` may ask for. */
export interface ErrorActions {
  readonly pause: () => void
  readonly stop: (error: unknown) => void
}

/** Hears of each failed attempt, asks `onError` and does what it answers; undefined without that option. */
export function onErrorOf(
  { onError, queue }: PipelinePlan,
  report: Report,
  { pause, stop }: ErrorActions,
): ((error: unknown, message: Message) => void) | undefined {
  if (onError === undefined) return undefined
  return (error, message) => {
    try {
      const answer: unknown = onError(error, message)
      ignoreRejection(answer)
      if (answer === 'pause') pause()
      else if (answer === 'stop') stop(error)
      else if (answer !== 'continue')
        throw expected('OPTION_INVALID', 'onError', "'continue', 'pause' or 'stop'", answer, 'It may not be async')
    } catch (thrown) {
      report({ kind: 'onError.failed', queue, error: toError(thrown) })
    }
  }
}

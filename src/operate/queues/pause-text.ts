import { agoWords } from '../../basics/time/duration-words.ts'
import { shortened } from '../../basics/words/sentences.ts'
import type { QueueSettingsStatus } from '../../queue-settings.ts'

/** `5m ago by ada: the mail provider is down`; null: the queue is not paused. */
export function pauseText({ pausedAt, pausedBy, pauseReason }: QueueSettingsStatus, at: Date): string | null {
  if (pausedAt === null) return null
  const who = pausedBy === null ? '' : ` by ${shortened(pausedBy, 60)}`
  const why = pauseReason === null ? '' : `: ${shortened(pauseReason)}`
  return `${agoWords(Math.max(0, at.getTime() - pausedAt.getTime()))}${who}${why}`
}

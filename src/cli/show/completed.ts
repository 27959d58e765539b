import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import type { CompletedMessage } from '../../index.ts'
import type { View } from '../output.ts'
import { attemptsText, type Fact, formatMessage } from './facts.ts'
import { printable } from './text.ts'

/** Everything about one message that has succeeded. */
export function formatCompleted(message: CompletedMessage, view: View): string {
  const { completedAt, claimedAt, enqueuedAt, lastError, worker, claim } = message
  const facts: readonly Fact[] = [
    ['completed', `${completedAt.toISOString()} (${agoWords(message.ageMs)})`],
    ['claimed', `${claimedAt.toISOString()} (${durationWords(message.tookMs)} before)`],
    ['enqueued', Number.isNaN(enqueuedAt.getTime()) ? null : enqueuedAt.toISOString()],
    ['by', worker ?? (claim === null ? null : `claim ${claim}`)],
    ['attempt', attemptsText(message)],
  ]
  return formatMessage(message, facts, [['last error', lastError && printable(lastError)]], view)
}

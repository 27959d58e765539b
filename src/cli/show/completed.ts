import type { CompletedMessage } from '../../index.ts'
import { parseExactly, toJsonText, type View } from '../output.ts'
import { formatAge, formatAgo, printable } from './text.ts'

/** Everything about one message that has succeeded. */
export function formatCompleted(message: CompletedMessage, { paint }: View): string {
  const facts = factsOf(message)
  const width = Math.max(...facts.map(([name]) => name.length))
  const lines = facts.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '-')}`)
  const sections = [
    ['headers', pretty(message.headersJson)],
    ['payload', pretty(message.payloadJson)],
    ['last error', printable(message.lastError ?? '-')],
  ].map(([name = '', text = '']) => `${paint('dim', name)}\n${text.replaceAll(/^/gm, '  ')}`)
  return [lines.join('\n'), ...sections].join('\n\n')
}

function factsOf(message: CompletedMessage): readonly (readonly [string, string | null])[] {
  const limit = message.maxAttempts === null ? '' : ` (its own limit: ${message.maxAttempts})`
  return [
    ['queue', message.queue],
    ['id', message.id],
    ['completed', `${message.completedAt.toISOString()} (${formatAgo(message.ageMs)})`],
    ['claimed', `${message.claimedAt.toISOString()} (${formatAge(message.tookMs)} before)`],
    ['enqueued', Number.isNaN(message.enqueuedAt.getTime()) ? null : message.enqueuedAt.toISOString()],
    ['by', message.worker ?? (message.claim === null ? null : `claim ${message.claim}`)],
    ['attempt', `${message.attempt}${limit}`],
    ['type', message.type],
    ['schema version', String(message.schemaVersion)],
    ['ordering key', message.orderingKey],
    ['priority', String(message.priority)],
    ['tenant', message.tenant],
    ['dedupe key', message.dedupeKey],
  ]
}

function pretty(json: string): string {
  return toJsonText(parseExactly(json), 2)
}

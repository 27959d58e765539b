import type { DeadLetter } from '../table/dead-letters.ts'
import { parseExactly, toJsonText } from './exact-json.ts'
import { formatAge, formatAgo } from './format-age.ts'
import { printable } from './printable.ts'
import type { View } from './view.ts'

/** Everything about one dead letter. */
export function formatDeadLetter(letter: DeadLetter, { paint }: View): string {
  const facts = factsOf(letter)
  const width = Math.max(...facts.map(([name]) => name.length))
  const lines = facts.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '-')}`)
  const sections = [
    ['headers', pretty(letter.headers)],
    ['payload', pretty(letter.payload)],
    ['error', printable(letter.error ?? '-')],
  ].map(([name = '', text = '']) => `${paint('dim', name)}\n${text.replaceAll(/^/gm, '  ')}`)
  return [lines.join('\n'), ...sections].join('\n\n')
}

function factsOf(letter: DeadLetter): readonly (readonly [string, string | null])[] {
  const limit = letter.maxAttempts === null ? '' : ` (its own limit: ${letter.maxAttempts})`
  return [
    ['queue', letter.queue],
    ['id', letter.id],
    ['reason', letter.reason],
    ['died', `${letter.diedAt} (${formatAgo(letter.ageMs)})`],
    ['enqueued', enqueued(letter)],
    ['attempts', `${letter.attempt}${limit}`],
    ['type', letter.type],
    ['schema version', String(letter.schemaVersion)],
    ['ordering key', letter.orderingKey],
    ['priority', String(letter.priority)],
  ]
}

function enqueued({ diedAt, enqueuedAt }: DeadLetter): string {
  const lifetimeMs = Date.parse(diedAt) - Date.parse(enqueuedAt)
  // An INSERT by hand may say infinity.
  return Number.isNaN(lifetimeMs) ? enqueuedAt : `${enqueuedAt} (${formatAge(lifetimeMs)} before it died)`
}

function pretty(json: string): string {
  return toJsonText(parseExactly(json), 2)
}

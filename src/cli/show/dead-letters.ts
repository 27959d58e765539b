import type { DeadLetter, DeadLetterGroup, DeadLetterSummary } from '../../index.ts'
import { parseExactly, toJsonText, type View } from '../output.ts'
import { formatFailures } from './failures.ts'
import { type Column, formatTable } from './table.ts'
import { counted, eventName, formatAge, formatAgo, printable } from './text.ts'

/** Dead letters as a table. */
export function formatDeadLetters(letters: readonly DeadLetter[], view: View): string {
  return formatTable(COLUMNS, letters, view)
}

/** The plan of an operation: the groups of dead letters with their counts, and a few examples. */
export function formatPlan(summary: DeadLetterSummary, examples: readonly DeadLetter[], view: View): string {
  const heading = examples.length < summary.total ? 'For example:' : 'Namely:'
  return `${formatGroups(summary, view)}\n\n${heading}\n\n${formatDeadLetters(examples, view)}`
}

/** The largest groups of dead letters. */
export function formatGroups(summary: DeadLetterSummary, view: View): string {
  const more = summary.moreGroups > 0 ? `\nand ${counted(summary.moreGroups, 'more combination')}` : ''
  return `${formatTable(GROUP_COLUMNS, summary.groups, view)}${more}`
}

/** Everything about one dead letter. */
export function formatDeadLetter(letter: DeadLetter, { paint }: View): string {
  const facts = factsOf(letter)
  const width = Math.max(...facts.map(([name]) => name.length))
  const lines = facts.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '-')}`)
  const sections = [
    ['headers', pretty(letter.headersJson)],
    ['payload', pretty(letter.payloadJson)],
    ['error', printable(letter.error ?? '-')],
    ...(letter.failures.length === 0 ? [] : [['failures', formatFailures(letter.failures)]]),
  ].map(([name = '', text = '']) => `${paint('dim', name)}\n${text.replaceAll(/^/gm, '  ')}`)
  return [lines.join('\n'), ...sections].join('\n\n')
}

function factsOf(letter: DeadLetter): readonly (readonly [string, string | null])[] {
  const limit = letter.maxAttempts === null ? '' : ` (its own limit: ${letter.maxAttempts})`
  return [
    ['queue', letter.queue],
    ['id', letter.id],
    ...(letter.position === null ? [] : [['event', eventName(letter)] as const]),
    ['reason', letter.reason],
    ['died', `${letter.diedAt.toISOString()} (${formatAgo(letter.ageMs)})`],
    ['enqueued', enqueued(letter)],
    ['attempts', `${letter.attempt}${limit}`],
    ['type', letter.type],
    ['schema version', String(letter.schemaVersion)],
    ['ordering key', letter.orderingKey],
    ['priority', String(letter.priority)],
    ['tenant', letter.tenant],
    ['dedupe key', letter.dedupeKey],
  ]
}

function enqueued({ diedAt, enqueuedAt }: DeadLetter): string {
  const lifetimeMs = diedAt.getTime() - enqueuedAt.getTime()
  return `${enqueuedAt.toISOString()} (${formatAge(lifetimeMs)} before it died)`
}

function pretty(json: string): string {
  return toJsonText(parseExactly(json), 2)
}

const COLUMNS: readonly Column<DeadLetter>[] = [
  { title: 'QUEUE', cell: (letter) => letter.queue },
  { title: 'ID', align: 'right', cell: (letter) => letter.id },
  { title: 'EVENT', align: 'right', optional: true, cell: eventName },
  { title: 'TYPE', cell: (letter) => letter.type },
  { title: 'ATTEMPTS', align: 'right', cell: (letter) => letter.attempt },
  { title: 'DIED', align: 'right', cell: (letter) => formatAgo(letter.ageMs) },
  { title: 'REASON', cell: (letter) => letter.reason },
  { title: 'ERROR', cell: (letter) => letter.error },
]

const GROUP_COLUMNS: readonly Column<DeadLetterGroup>[] = [
  { title: 'QUEUE', cell: (group) => group.queue },
  { title: 'TYPE', cell: (group) => group.type },
  { title: 'MESSAGES', align: 'right', cell: (group) => group.messages },
  { title: 'REASON', cell: (group) => group.reason },
  { title: 'ERROR', cell: (group) => group.error },
]

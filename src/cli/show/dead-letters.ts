import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import { counted } from '../../basics/words/sentences.ts'
import type { DeadLetter, DeadLetterGroup, DeadLetterSummary } from '../../index.ts'
import type { View } from '../output.ts'
import { attemptsText, type Fact, formatMessage } from './facts.ts'
import { formatFailures } from './failures.ts'
import { formatTable, type TableColumn } from './table.ts'
import { eventName, printable } from './text.ts'

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
export function formatDeadLetter(letter: DeadLetter, view: View): string {
  const { error, failures } = letter
  const facts: readonly Fact[] = [
    ...(letter.position === null ? [] : [['event', eventName(letter)] as const]),
    ['reason', letter.reason],
    ['died', `${letter.diedAt.toISOString()} (${agoWords(letter.ageMs)})`],
    ['enqueued', enqueued(letter)],
    ['attempts', attemptsText(letter)],
  ]
  const sections: readonly Fact[] = [
    ['error', error && printable(error)],
    ...(failures.length === 0 ? [] : [['failures', formatFailures(failures)] as const]),
  ]
  return formatMessage(letter, facts, sections, view)
}

function enqueued({ diedAt, enqueuedAt }: DeadLetter): string {
  const lifetimeMs = diedAt.getTime() - enqueuedAt.getTime()
  return `${enqueuedAt.toISOString()} (${durationWords(lifetimeMs)} before it died)`
}

const COLUMNS: readonly TableColumn<DeadLetter>[] = [
  { title: 'QUEUE', cell: (letter) => letter.queue },
  { title: 'ID', align: 'right', cell: (letter) => letter.id },
  { title: 'EVENT', align: 'right', optional: true, cell: eventName },
  { title: 'TYPE', cell: (letter) => letter.type },
  { title: 'ATTEMPTS', align: 'right', cell: (letter) => letter.attempt },
  { title: 'DIED', align: 'right', cell: (letter) => agoWords(letter.ageMs) },
  { title: 'REASON', cell: (letter) => letter.reason },
  { title: 'ERROR', cell: (letter) => letter.error },
]

const GROUP_COLUMNS: readonly TableColumn<DeadLetterGroup>[] = [
  { title: 'QUEUE', cell: (group) => group.queue },
  { title: 'TYPE', cell: (group) => group.type },
  { title: 'MESSAGES', align: 'right', cell: (group) => group.messages },
  { title: 'REASON', cell: (group) => group.reason },
  { title: 'ERROR', cell: (group) => group.error },
]

import type { DeadLetter, DeadLetterGroup, DeadLetterSummary } from '../table/dead-letters.ts'
import { formatAgo } from './format-age.ts'
import { type Column, formatTable } from './format-table.ts'
import type { View } from './view.ts'

/** Dead letters as a table. */
export function formatDeadLetters(letters: readonly DeadLetter[], view: View): string {
  return formatTable(COLUMNS, letters, view)
}

/** What an operation is going to do: how many of what, and a few examples. */
export function formatPlan(summary: DeadLetterSummary, examples: readonly DeadLetter[], view: View): string {
  const groups = formatTable(GROUP_COLUMNS, summary.groups, view)
  const more = summary.moreGroups > 0 ? `\nand ${summary.moreGroups} more combinations` : ''
  const heading = examples.length < summary.total ? 'For example:' : 'Namely:'
  return `${groups}${more}\n\n${heading}\n\n${formatDeadLetters(examples, view)}`
}

/** '1 dead letter', '12 dead letters' */
export function deadLetters(count: number): string {
  return `${count} dead ${count === 1 ? 'letter' : 'letters'}`
}

const COLUMNS: readonly Column<DeadLetter>[] = [
  { title: 'QUEUE', cell: (letter) => letter.queue },
  { title: 'ID', align: 'right', cell: (letter) => letter.id },
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
]

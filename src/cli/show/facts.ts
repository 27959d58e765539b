import { separated } from '../../basics/words/words.ts'
import type { StoredMessage } from '../../index.ts'
import { MESSAGE_OPTIONS } from '../../message-options.ts'
import { parseExactly, toJsonText, type View } from '../output.ts'
import { printable } from './text.ts'

/** A name and its text; null is shown as a dash. */
export type Fact = readonly [name: string, text: string | null]

/** A line for each fact, with their names in one column. */
export function formatFacts(facts: readonly Fact[], { paint }: View): string {
  const width = Math.max(...facts.map(([name]) => name.length))
  return facts.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '-')}`).join('\n')
}

/** Texts of several lines below their names. They are safe for a terminal already. */
export function formatSections(sections: readonly Fact[], { paint }: View): string {
  return sections.map(([name, text]) => `${paint('dim', name)}\n${(text ?? '-').replaceAll(/^/gm, '  ')}`).join('\n\n')
}

/** Everything about one message: facts, then its content and what else has several lines. */
export function formatMessage(
  message: StoredMessage,
  facts: readonly Fact[],
  sections: readonly Fact[],
  view: View,
): string {
  const { headersJson, payloadJson } = message
  const content = [
    ['headers', toJsonText(parseExactly(headersJson), 2)],
    ['payload', toJsonText(parseExactly(payloadJson), 2)],
  ] as const
  const all = [['queue', message.queue] as const, ['id', message.id] as const, ...facts, ...optionsOf(message)]
  return `${formatFacts(all, view)}\n\n${formatSections([...content, ...sections], view)}`
}

function optionsOf(message: StoredMessage): readonly Fact[] {
  const values: ReadonlyMap<string, unknown> = new Map(Object.entries(message))
  return SHOWN.filter((name) => values.has(name)).map((name) => {
    const value = values.get(name) ?? null
    return [separated(name, ' '), value === null ? null : String(value)]
  })
}

/** The options, but for those that are shown elsewhere. */
const SHOWN = [
  ...Object.keys(MESSAGE_OPTIONS).filter((name) => name !== 'headers' && name !== 'maxAttempts'),
  'dedupeKey',
]

/** '3', '3 (its own limit: 5)' */
export function attemptsText({ attempt, maxAttempts }: StoredMessage & { readonly attempt: number }): string {
  return maxAttempts === null ? String(attempt) : `${attempt} (its own limit: ${maxAttempts})`
}

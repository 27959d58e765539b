import type { Finding } from '../../index.ts'
import type { View } from '../output.ts'
import { printable, wrapped } from './text.ts'

/**
 * Each finding: what kind it is and about what, what was seen, and a remedy to copy. On a terminal what was seen is broken
 * into lines; the remedy is one line always.
 */
export function formatFindings(findings: readonly Finding[], { paint, width }: View): string {
  if (findings.length === 0) return 'The doctor found nothing'
  const widest = Math.max(...findings.map(({ severity }) => severity.length))
  return findings
    .map(({ kind, severity, subject, finding, remedy }) => {
      const head = `${paint(COLOURS[severity], severity.padEnd(widest))}  ${kind}  ${paint('bold', line(subject))}`
      const seen = wrapped(line(finding), (width ?? Number.POSITIVE_INFINITY) - 2)
      return [head, ...seen.map((part) => `  ${part}`), `  ${paint('dim', '→')} ${line(remedy)}`].join('\n')
    })
    .join('\n\n')
}

/** A line end in a name or an error must not look like another finding, or like a second command. */
function line(text: string): string {
  return printable(text.replaceAll(/\s+/g, ' '))
}

const COLOURS = { error: 'red', warning: 'yellow', unknown: 'cyan' } as const

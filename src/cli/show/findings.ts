import type { Finding } from '../../index.ts'
import type { View } from '../output.ts'
import { printable } from './text.ts'

/** Each finding in three lines: what kind it is and about what, what was seen, and a remedy to copy. */
export function formatFindings(findings: readonly Finding[], { paint }: View): string {
  if (findings.length === 0) return 'The doctor found nothing'
  const width = Math.max(...findings.map(({ severity }) => severity.length))
  return findings
    .map(({ check, severity, subject, finding, remedy }) => {
      const head = `${paint(COLOURS[severity], severity.padEnd(width))}  ${check}  ${paint('bold', line(subject))}`
      return `${head}\n  ${line(finding)}\n  ${paint('dim', '→')} ${line(remedy)}`
    })
    .join('\n\n')
}

/** A line end in a name or an error must not look like another finding, or like a second command. */
function line(text: string): string {
  return printable(text.replaceAll(/\s+/g, ' '))
}

const COLOURS = { error: 'red', warning: 'yellow', unknown: 'cyan' } as const

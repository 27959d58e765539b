import type { Explanation, Reason } from '../../index.ts'
import type { View } from '../output.ts'
import { oneLine, wrapped } from './text.ts'

/** Each reason with its sentences and the command that changes it, the main reason first. */
export function formatExplanation({ headline, others }: Explanation, view: View): string {
  const parts = [formatReason(headline, view)]
  if (others.length > 0) parts.push(view.paint('dim', 'also'), ...others.map((other) => formatReason(other, view)))
  return parts.join('\n\n')
}

function formatReason({ reason, explanation, since, until, remedy }: Reason, { paint, width }: View): string {
  const times = [since && `since ${since.toISOString()}`, until && `until ${until.toISOString()}`].filter((one) => one)
  const lines = [
    [paint('bold', reason), ...times.map((time) => paint('dim', String(time)))].join('  '),
    ...wrapped(oneLine(explanation, MOST), (width ?? Number.POSITIVE_INFINITY) - INDENT.length),
  ]
  if (remedy !== null)
    lines.push(paint('cyan', `${remedy.startsWith('SELECT ') ? '=>' : '$'} ${oneLine(remedy, MOST)}`))
  return lines.map((line, at) => (at === 0 ? line : INDENT + line)).join('\n')
}

const INDENT = '  '
/** Longer than any explanation: what users wrote has been shortened in it. */
const MOST = 2_000

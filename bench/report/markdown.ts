/** A table. Columns but the first and those named are aligned to the right. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  left: readonly string[] = [],
): string {
  const line = (cells: readonly string[]) => `| ${cells.map(escapeCell).join(' | ')} |`
  const rule = head.map((name, at) => (at === 0 || left.includes(name) ? '---' : '--:'))
  return [line(head), `|${rule.join('|')}|`, ...rows.map(line)].join('\n')
}

function escapeCell(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', String.raw`\|`)
}

import Table from 'cli-table3'

/** What a demo prints at its end: a name and a figure on each line. */
export function showTable(rows: readonly [string, string | number][]): string {
  const drawn = new Table({ colAligns: ['left', 'right'], style: { head: [], border: [], compact: true } })
  drawn.push(...rows)
  return drawn.toString()
}

/** The columns of each view that files of `schema/` make. A view is named without its schema. */
export function viewColumns(sql: string): ReadonlyMap<string, readonly string[]> {
  const views = sql.replaceAll(/--.*/g, '').matchAll(/^CREATE VIEW sluice\.(\w+) AS$(.*?);$/gms)
  return new Map([...views].map(([, view = '', query = '']) => [view, columnsOf(query)]))
}

/** What stands between the first SELECT of a query and its FROM, beside parentheses: each column ends with its name, or
 * with a cast behind it. */
function columnsOf(query: string): readonly string[] {
  const [, columns = ''] = /\bSELECT\b(.*?)\bFROM\b/s.exec(withoutInner(query)) ?? []
  return columns.split(',').map((column) => /(\w+)(?:::\w+)?$/.exec(column.trim())?.[1] ?? column)
}

/** Without texts, and without all that stands in parentheses. */
function withoutInner(query: string): string {
  let outer = query.replaceAll(/'(?:[^']|'')*'/g, '')
  for (let before = ''; before !== outer; ) {
    before = outer
    outer = outer.replaceAll(/\([^()]*\)/g, '')
  }
  return outer
}

/** What `sluice_private.describe()` is given for each view: its columns, and `*` for the view itself. */
export function describedColumns(sql: string): ReadonlyMap<string, readonly string[]> {
  const described = new Map<string, readonly string[]>()
  const calls = sql.matchAll(/^SELECT sluice_private\.describe\('\{(.*?)\}', \$\$\n(.*?)\n\$\$\);$/gms)
  for (const [, views = '', lines = ''] of calls) {
    // A line that is indented belongs to the one before.
    const names = lines.split(/\n(?! )/).map((line) => line.split(':')[0] ?? '')
    for (const view of views.split(',')) described.set(view, [...(described.get(view) ?? []), ...names])
  }
  return described
}

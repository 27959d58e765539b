import { type Html, html } from './html.ts'
import { empty } from './parts.ts'

/** A column of a table. */
export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => unknown
  /** Numbers are aligned at their end. */
  readonly align?: 'end' | undefined
  /** Takes the width that others leave, and is cut where there is too little. */
  readonly wide?: boolean | undefined
}

/** A table, or a sentence if it has no rows. It scrolls by itself where it is wider than the page; in a narrow window each row is a list. */
export function table<Row>(
  label: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  ifEmpty: unknown,
): Html {
  if (rows.length === 0) return empty(ifEmpty)
  return html`<div class="scroll" role="group" aria-label="${label}" tabindex="0"><table>
    <thead><tr>${columns.map((column) => html`<th scope="col" class="${classOf(column)}">${column.title}</th>`)}</tr></thead>
    <tbody>${rows.map(
      (row) =>
        html`<tr>${columns.map((column) => html`<td class="${classOf(column)}" data-title="${column.title}"><div>${column.cell(row)}</div></td>`)}</tr>`,
    )}</tbody>
  </table></div>`
}

function classOf({ align, wide }: Pick<Column<never>, 'align' | 'wide'>): string {
  return wide ? 'wide' : (align ?? 'start')
}

import Table from 'cli-table3'
import { maskSecrets } from './mask-secrets.ts'
import { oneLine } from './printable.ts'
import type { View } from './view.ts'

/** One column: its title, what it shows of a row (null is a dash), and how. */
export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => string | number | null
  readonly align?: 'right'
  readonly paint?: (text: string, row: Row) => string
}

/** Rows under titles, in aligned columns without borders. On a terminal the last column is cut to what is left. */
export function formatTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], view: View): string {
  const titles = columns.map((column) => view.paint('dim', column.title))
  const lines = [titles, ...rows.map((row) => columns.map((column) => cellText(column, row)))]
  const aligns = columns.map((column) => column.align ?? 'left')
  return draw(lines, aligns, view.width === undefined ? null : widthOfLast(lines, aligns, view.width))
}

const GAP = '  '
const NARROWEST = 8

function cellText<Row>({ cell, paint }: Column<Row>, row: Row): string {
  const value = cell(row)
  // Masked before it is cut: a URL without its end is not seen to be one.
  const text = value === null || value === '' ? '-' : oneLine(maskSecrets(String(value)))
  return paint === undefined ? text : paint(text, row)
}

function widthOfLast(lines: readonly string[][], aligns: readonly Align[], terminal: number): number | null {
  if (aligns.at(-1) === 'right') return null
  const widthOf = (columns: (line: string[]) => string[]) => createTable(lines.map(columns), aligns, []).width
  const others = widthOf((line) => line.slice(0, -1))
  const last = widthOf((line) => line.slice(-1))
  return Math.min(last, Math.max(NARROWEST, terminal - others - GAP.length))
}

function draw(lines: readonly string[][], aligns: readonly Align[], last: number | null): string {
  const widths = aligns.map((_, column) => (column === aligns.length - 1 ? last : null))
  const text = createTable(lines, aligns, widths).toString()
  return text.replaceAll(/ +$/gm, '')
}

type Align = 'left' | 'right'

function createTable(lines: readonly string[][], aligns: readonly Align[], widths: (number | null)[]): Table.Table {
  const table = new Table({
    colAligns: [...aligns],
    colWidths: widths,
    chars: { ...NO_BORDERS, middle: GAP },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
  table.push(...lines)
  return table
}

const NO_BORDERS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
} as const

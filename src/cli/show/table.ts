import Table from 'cli-table3'
import { maskSecrets } from '../mask-secrets.ts'
import type { View } from '../output.ts'
import { oneLine } from './text.ts'

/** One column: its title, what it shows of a row (a dash for null), and how. */
export interface TableColumn<Row> {
  readonly title: string
  readonly cell: (row: Row) => string | number | null
  readonly align?: 'right'
  /** Left out if it has nothing to show of any row. */
  readonly optional?: true
  readonly paint?: (text: string, row: Row) => string
}

/**
 * Rows under titles, in aligned columns without borders, one line each. On a terminal long strings are shortened to fit
 * its width. Columns that find no room are left out, and a last column … says so.
 */
export function formatTable<Row>(all: readonly TableColumn<Row>[], rows: readonly Row[], view: View): string {
  const columns = all.filter(({ optional, cell }) => !optional || rows.some((row) => cell(row) !== null))
  const titles = columns.map((column) => view.paint('dim', column.title))
  const lines = [titles, ...rows.map((row) => columns.map((column) => cellText(column, row)))]
  const aligns = columns.map((column) => column.align ?? 'left')
  if (view.width === undefined) return draw(lines, aligns, [])
  const extents = aligns.map((align, at) => extentOf(lines, at, align))
  const widths = fitColumns(extents, view.width, GAP.length)
  if (widths.length === columns.length) return draw(lines, aligns, widths)
  const left = lines.map((line, at) => [...line.slice(0, widths.length), at === 0 ? view.paint('dim', '…') : ''])
  return draw(left, [...aligns.slice(0, widths.length), 'left'], [...widths, 1])
}

const GAP = '  '
/** A string, or a title, that is shortened to less than this says nothing. */
const NARROWEST = 8
const NARROWEST_TITLE = 4

function cellText<Row>({ cell, paint }: TableColumn<Row>, row: Row): string {
  const value = cell(row)
  // Masked before it is shortened: without its end, a URL is not recognised as one.
  const text = value === null || value === '' ? '-' : oneLine(maskSecrets(String(value)))
  return paint === undefined ? text : paint(text, row)
}

/** Numbers are never shortened, only their titles. */
function extentOf(lines: readonly string[][], at: number, align: Align): Extent {
  const cells = lines.map((line) => line[at] ?? '')
  const natural = widthOf(cells)
  const least = align === 'right' ? Math.max(NARROWEST_TITLE, widthOf(cells.slice(1))) : NARROWEST
  return { natural, least: Math.min(natural, least) }
}

/** The table measures the characters of its first line: here that is blank, and as wide as the others. */
function widthOf(cells: readonly string[]): number {
  return createTable(
    ['', ...cells].map((cell) => [cell]),
    ['left'],
    [],
  ).width
}

function draw(lines: readonly string[][], aligns: readonly Align[], widths: readonly number[]): string {
  const text = createTable(lines, aligns, widths).toString()
  return text.replaceAll(/ +$/gm, '')
}

type Align = 'left' | 'right'

function createTable(lines: readonly string[][], aligns: readonly Align[], widths: readonly number[]): Table.Table {
  const table = new Table({
    colAligns: [...aligns],
    colWidths: [...widths],
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

/** How wide a column is without a limit, and how narrow it may be. */
interface Extent {
  readonly natural: number
  readonly least: number
}

/**
 * The widths of as many columns, from the left, as fit into a line of `width`. The widest ones shrink first. If not all
 * columns fit even with their least widths, there is room for one more column of width 1.
 */
function fitColumns(extents: readonly Extent[], width: number, gap: number): readonly number[] {
  const fitting = columnsThatFit(extents, width, gap)
  const room = fitting < extents.length ? width - gap - 1 : width
  const shown = extents.slice(0, fitting)
  const widths = shown.map(({ natural }) => natural)
  for (let excess = lineOf(widths, gap) - room; excess > 0; excess--) {
    const [widest] = [...widths.keys()]
      .filter((at) => widths[at]! > shown[at]!.least)
      .toSorted((a, b) => widths[b]! - widths[a]!)
    if (widest === undefined) break
    widths[widest]! -= 1
  }
  return widths
}

/** At least one. */
function columnsThatFit(extents: readonly Extent[], width: number, gap: number): number {
  const least = extents.map((extent) => extent.least)
  if (lineOf(least, gap) <= width) return least.length
  const narrower = least.map((_, at) => at + 1).filter((count) => lineOf([...least.slice(0, count), 1], gap) <= width)
  return Math.max(1, ...narrower.filter((count) => count < least.length))
}

function lineOf(widths: readonly number[], gap: number): number {
  return widths.reduce((sum, one) => sum + one, gap * (widths.length - 1))
}

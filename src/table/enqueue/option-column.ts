import type { MessageOption } from '../../message-options.ts'
import { type Column, nullable, number } from '../shape.ts'

/** How a view shows an option of a message: times are intervals. */
export function optionColumn({ kind, byDefault }: MessageOption): Column<unknown> {
  if (kind === 'time') return nullable.duration()
  if (kind !== 'count') return nullable.text()
  return byDefault === undefined ? nullable.number() : number()
}

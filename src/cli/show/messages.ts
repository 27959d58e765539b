import type { MessageStatus } from '../../index.ts'
import { maskSecrets } from '../mask-secrets.ts'
import type { View } from '../output.ts'
import { formatTable, type TableColumn } from './table.ts'
import { eventName, formatDue, oneLine } from './text.ts'

/** Messages as a table. */
export function formatMessages(messages: readonly MessageStatus[], view: View): string {
  return formatTable(COLUMNS, messages, view)
}

const COLUMNS: readonly TableColumn<MessageStatus>[] = [
  { title: 'ID', align: 'right', cell: (message) => message.id },
  { title: 'EVENT', align: 'right', optional: true, cell: eventName },
  { title: 'STATE', cell: (message) => message.state },
  { title: 'DUE', align: 'right', cell: (message) => formatDue(message.dueInMs) },
  { title: 'ATTEMPT', align: 'right', cell: (message) => message.attempt },
  { title: 'TYPE', cell: (message) => message.type },
  { title: 'ORDERING KEY', cell: (message) => message.orderingKey },
  { title: 'NOTE', cell: noteOn },
  { title: 'PAYLOAD', cell: (message) => message.payloadJson },
]

/** Why a message is where it is. */
function noteOn({ worker, claim, lockedBy, heldBy, lastError }: MessageStatus): string | null {
  if (worker !== null) return `worker ${worker}`
  if (claim !== null) return `claim ${claim}`
  if (lockedBy !== null) return `locked by process ${lockedBy}`
  if (heldBy !== null) return `waits for ${heldBy}`
  return lastError === null ? null : oneLine(maskSecrets(lastError), 40)
}

/** What the columns mean that do not say so. */
export const COLUMNS_HELP = `
ATTEMPT  how many tries have failed so far
NOTE     its worker or claim, the server process that locks it, the message it waits for, or the error of its last try`

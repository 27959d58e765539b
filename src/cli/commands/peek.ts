import type { Command } from 'commander'
import type { MessageStatus } from '../../index.ts'
import { operating } from '../connect.ts'
import { didYouMean } from '../known-queue.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { parse } from '../options.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../output.ts'
import { formatTable, type TableColumn } from '../show/table.ts'
import { eventName, formatDue, oneLine } from '../show/text.ts'

interface PeekOptions extends JsonOptions {
  readonly limit: number
}

/** `sluice peek` */
export function addPeek(program: Command): void {
  program
    .command('peek')
    .description('Show the next messages of a queue by due time, without claiming them.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 10)
    .option('--json', 'print a JSON array, with everything about each message')
    .addHelpText('after', EXAMPLES)
    .action(peek)
}

async function peek(queue: string, options: PeekOptions, command: Command): Promise<void> {
  const messages = await operating(command, async (operate) => {
    const found = await operate.messages.peek(queue, { limit: options.limit })
    if (found.length === 0) note(`Queue "${queue}" has no messages.${await didYouMean(operate, queue)}`)
    return found
  })
  if (options.json) printJson(messages.map(withContent))
  else if (messages.length > 0) print(formatTable(COLUMNS, messages, stdoutView()))
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

const EXAMPLES = `
Examples:
  $ sluice peek orders
  $ sluice peek orders --limit 3 --json | jq '.[].payload'

ATTEMPT  how many tries have failed so far
NOTE     its worker or claim, the server process that locks it, the message it waits for, or the error of its last try`

import type { Command } from 'commander'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../../output.ts'
import { COLUMNS_HELP, formatMessages } from '../../show/messages.ts'

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
  else if (messages.length > 0) print(formatMessages(messages, stdoutView()))
}

const EXAMPLES = `
Examples:
  $ sluice peek orders
  $ sluice peek orders --limit 3 --json | jq '.[].payload'
${COLUMNS_HELP}`

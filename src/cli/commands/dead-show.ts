import type { Command } from 'commander'
import { type DeadLetter, listDeadLetters } from '../../table/dead-letters.ts'
import type { Execute } from '../../table/statement.ts'
import { withDatabase } from '../connect.ts'
import { readDeadFilter } from '../dead-filter.ts'
import { formatDeadLetter } from '../format-dead-letter.ts'
import { parse } from '../options.ts'
import { print, printJson } from '../output.ts'
import { Refusal } from '../refusal.ts'
import { didYouMean } from '../unknown-queue.ts'
import { stdoutView } from '../view.ts'
import { withContent } from './dead-list.ts'

/** `sluice dead show` */
export function addDeadShow(dead: Command): void {
  dead
    .command('show')
    .description('Show everything about one dead letter, with its payload, headers and error.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<id>', 'the number of the message', parse.id)
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(showDead)
}

async function showDead(
  queue: string,
  id: string,
  { json }: { readonly json?: true },
  command: Command,
): Promise<void> {
  const letter = await withDatabase(command, (execute) => readLetter(execute, queue, id))
  if (json) printJson(withContent(letter))
  else print(formatDeadLetter(letter, stdoutView()))
}

async function readLetter(execute: Execute, queue: string, id: string): Promise<DeadLetter> {
  const filter = await readDeadFilter(execute, queue, { id: [id] })
  const [letter] = await listDeadLetters(execute, filter, { limit: 1 })
  if (letter !== undefined) return letter
  const hint = (await didYouMean(execute, queue)) || ` See: sluice dead list ${queue}`
  throw new Refusal(`Queue "${queue}" has no dead letter ${id}.${hint}`)
}

const EXAMPLES = `
Examples:
  $ sluice dead show orders 42
  $ sluice dead show orders 42 --json | jq .payload`

import type { Command } from 'commander'
import { type DeadLetter, listDeadLetters } from '../../table/dead-letters.ts'
import { withDatabase } from '../connect.ts'
import { addDeadFilter, type DeadFilterOptions, readDeadFilter } from '../dead-filter.ts'
import { parseExactly } from '../exact-json.ts'
import { formatDeadLetters } from '../format-dead-letters.ts'
import { parse } from '../options.ts'
import { note, print, printJson } from '../output.ts'
import { didYouMean } from '../unknown-queue.ts'
import { stdoutView } from '../view.ts'

interface DeadListOptions extends DeadFilterOptions {
  readonly reason?: string
  readonly limit: number
  readonly json?: true
}

/** `sluice dead list` */
export function addDeadList(dead: Command): void {
  addDeadFilter(dead.command('list'))
    .description('List dead letters, the latest first.')
    .option('-r, --reason <text>', 'only those whose reason contains this text')
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array, with everything about each message')
    .addHelpText('after', EXAMPLES)
    .action(listDead)
}

/** A dead letter as JSON: payload and headers as values. */
export function withContent(letter: DeadLetter): unknown {
  return { ...letter, headers: parseExactly(letter.headers), payload: parseExactly(letter.payload) }
}

async function listDead(queue: string | undefined, options: DeadListOptions, command: Command): Promise<void> {
  const { reason, limit, json } = options
  const found = await withDatabase(command, async (execute) => {
    const filter = await readDeadFilter(execute, queue, options)
    const some = await listDeadLetters(execute, filter, { reason, limit: limit + 1 })
    if (some.length === 0) note(`No dead letters match.${await didYouMean(execute, queue)}`)
    return some
  })
  const letters = found.slice(0, limit)
  if (json) printJson(letters.map(withContent))
  else if (letters.length > 0) print(formatDeadLetters(letters, stdoutView()))
  if (found.length > limit) note(`There are more than these ${limit}: give a filter or a larger --limit.`)
}

const EXAMPLES = `
Examples:
  $ sluice dead list
  $ sluice dead list orders --type order.paid --older-than 1d
  $ sluice dead list --reason schema --limit 200
  $ sluice dead list orders --json | jq -r '.[].id'`

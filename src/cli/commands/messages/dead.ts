import type { Command } from 'commander'
import type { Operate } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { addDeadFilter, type DeadFilterOptions, readDeadFilter } from '../../arguments/dead-filter.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { MESSAGE_ID, messageId } from '../../arguments/which-message.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { formatDeadLetter, formatDeadLetters, formatGroups } from '../../show/dead-letters.ts'
import { addDeadDelete, addDeadRedrive } from './dead-change.ts'

/** `sluice dead …` */
export function addDead(program: Command): void {
  const dead = program
    .command('dead')
    .description('List, get, redrive and delete dead letters: messages that are not retried.')
    .addHelpText('after', EXAMPLES)
  addCommands(dead, [addDeadList, addDeadGet, addDeadRedrive, addDeadDelete])
}

interface DeadListOptions extends DeadFilterOptions, JsonOptions {
  readonly groups?: true
  readonly limit: number
}

/** `sluice dead list` */
function addDeadList(dead: Command): void {
  addDeadFilter(dead.command('list'))
    .description('List dead letters, the latest first.')
    .option('-g, --groups', 'count them by queue, type, reason and error instead')
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array, with everything about each message')
    .addHelpText('after', LIST_EXAMPLES)
    .action(listDead)
}

async function listDead(queue: string | undefined, options: DeadListOptions, command: Command): Promise<void> {
  if (options.groups) return listGroups(queue, options, command)
  const { limit, json } = options
  const { deadLetters, next } = await operating(command, async (operate) => {
    const filter = await readDeadFilter(operate, queue, options)
    const page = await operate.deadLetters.list({ ...filter, limit })
    if (page.deadLetters.length === 0) note(await whyNone(operate, queue, options))
    return page
  })
  if (json) printJson(deadLetters.map(withContent))
  else if (deadLetters.length > 0) print(formatDeadLetters(deadLetters, stdoutView()))
  if (next !== null) note(`There are more than these ${limit}: give a filter or a larger --limit.`)
}

async function listGroups(queue: string | undefined, options: DeadListOptions, command: Command): Promise<void> {
  const summary = await operating(command, async (operate) => {
    const found = await operate.deadLetters.summarise(await readDeadFilter(operate, queue, options))
    if (found.total === 0) note(await whyNone(operate, queue, options))
    return found
  })
  if (options.json) printJson(summary)
  else if (summary.total > 0) print(formatGroups(summary, stdoutView()))
}

async function whyNone(operate: Operate, queue: string | undefined, options: DeadListOptions): Promise<string> {
  const { limit: _, json: __, groups: ___, ...filters } = options
  if (queue === undefined && Object.keys(filters).length === 0) return 'There are no dead letters.'
  return `No dead letters match.${await didYouMean(operate, queue)}`
}

/** `sluice dead get` */
function addDeadGet(dead: Command): void {
  dead
    .command('get')
    .description('Show everything about one dead letter, with its payload, headers and error.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<id>', MESSAGE_ID, parse.id)
    .option('--json', 'print a JSON object')
    .addHelpText('after', SHOW_EXAMPLES)
    .action(showDead)
}

async function showDead(queue: string, name: string, { json }: JsonOptions, command: Command): Promise<void> {
  const letter = await operating(command, async (operate) => {
    const id = await messageId(operate, queue, name)
    const found = await operate.deadLetters.get(queue, id)
    if (found !== undefined) return found
    const hint = (await didYouMean(operate, queue)) || ` See: sluice dead list ${queue}`
    throw new CommandRefusal(`Queue "${queue}" has no dead letter ${id}.${hint}`)
  })
  if (json) printJson(withContent(letter))
  else print(formatDeadLetter(letter, stdoutView()))
}

const EXAMPLES = `
Examples:
  $ sluice dead list
  $ sluice dead list orders --newer-than 1h --reason schema
  $ sluice dead get orders 42
  $ sluice dead redrive orders --type order.paid --dry-run
  $ sluice dead delete orders --older-than 30d --yes`

const LIST_EXAMPLES = `
Examples:
  $ sluice dead list
  $ sluice dead list orders --type order.paid --older-than 1d
  $ sluice dead list --reason schema --limit 200
  $ sluice dead list orders --json | jq -r '.[].id'`

const SHOW_EXAMPLES = `
Examples:
  $ sluice dead get orders 42
  $ sluice dead get orders 42 --json | jq .payload
  $ sluice dead get orders:billing orders/7`

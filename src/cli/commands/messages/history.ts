import type { Command } from 'commander'
import { agoWords, durationWords } from '../../../basics/time/duration-words.ts'
import type { CompletedMessage } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { formatCompleted } from '../../show/completed.ts'
import { formatTable, type TableColumn } from '../../show/table.ts'

/** `sluice history …` */
export function addHistory(program: Command): void {
  const history = program
    .command('history')
    .description('List and get messages that have succeeded, in queues that keep their history.')
    .addHelpText('after', EXAMPLES)
  addCommands(history, [addHistoryList, addHistoryGet])
}

interface HistoryListOptions extends JsonOptions {
  readonly type?: string
  readonly orderingKey?: string
  readonly tenant?: string
  readonly olderThan?: number
  readonly newerThan?: number
  readonly limit: number
}

/** `sluice history list` */
function addHistoryList(history: Command): void {
  history
    .command('list')
    .description('List the messages of a queue that have succeeded, the latest first.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('-t, --type <type>', 'only messages of this type')
    .option('-k, --ordering-key <key>', 'only messages with this ordering key')
    .option('--tenant <tenant>', 'only messages of this tenant')
    .option(
      '--older-than <duration>',
      'only those that succeeded longer ago than this (30s, 5m, 2h, 7d)',
      parse.durationMs,
    )
    .option('--newer-than <duration>', 'only those that succeeded more recently than this', parse.durationMs)
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array, with everything about each message')
    .addHelpText('after', LIST_EXAMPLES)
    .action(listHistory)
}

async function listHistory(queue: string, options: HistoryListOptions, command: Command): Promise<void> {
  const { type, orderingKey, tenant, olderThan, newerThan, limit, json } = options
  const { messages, next } = await operating(command, async (operate) => {
    const nowMs = (await operate.now()).getTime()
    const ago = (ms: number | undefined) => (ms === undefined ? undefined : new Date(nowMs - ms))
    const times = { completedBefore: ago(olderThan), completedAfter: ago(newerThan) }
    const page = await operate.history.list({ queue, type, orderingKey, tenant, ...times, limit })
    if (page.messages.length === 0)
      note(`No message of the history of "${queue}" matches.${await didYouMean(operate, queue)}`)
    return page
  })
  if (json) printJson(messages.map(withContent))
  else if (messages.length > 0) print(formatTable(COLUMNS, messages, stdoutView()))
  if (next !== null) note(`There are more than these ${messages.length}: give a filter, a time or a larger --limit.`)
}

/** `sluice history get` */
function addHistoryGet(history: Command): void {
  history
    .command('get')
    .description('Show everything about one message that has succeeded, with its payload and headers.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<id>', 'the id of the message', parse.id)
    .option('--json', 'print a JSON object')
    .addHelpText('after', SHOW_EXAMPLES)
    .action(showCompleted)
}

async function showCompleted(queue: string, id: string, { json }: JsonOptions, command: Command): Promise<void> {
  const completed = await operating(command, async (operate) => {
    const found = await operate.history.get(queue, id)
    if (found !== undefined) return found
    const hint = (await didYouMean(operate, queue)) || ` See: sluice history list ${queue}`
    throw new CommandRefusal(`The history of queue "${queue}" has no message ${id}.${hint}`)
  })
  if (json) printJson(withContent(completed))
  else print(formatCompleted(completed, stdoutView()))
}

const COLUMNS: readonly TableColumn<CompletedMessage>[] = [
  { title: 'ID', align: 'right', cell: ({ id }) => id },
  { title: 'TYPE', cell: ({ type }) => type },
  { title: 'COMPLETED', align: 'right', cell: ({ ageMs }) => agoWords(ageMs) },
  { title: 'TOOK', align: 'right', cell: ({ tookMs }) => durationWords(tookMs) },
  { title: 'ATTEMPT', align: 'right', cell: ({ attempt }) => attempt },
  { title: 'BY', cell: ({ worker, claim }) => worker ?? (claim === null ? null : `claim ${claim}`) },
  { title: 'PAYLOAD', cell: ({ payloadJson }) => payloadJson },
]

const EXAMPLES = `
A queue keeps its history if its setting history says for how long: see docs/guides/history.md.

Examples:
  $ sluice history list orders
  $ sluice history get orders 42`

const LIST_EXAMPLES = `
Examples:
  $ sluice history list orders
  $ sluice history list orders --type order.paid --newer-than 1h
  $ sluice history list orders --json | jq -r '.[].id'

TOOK  from the claim of the attempt that succeeded to its end
BY    the worker that handled it, or the claim that settled it`

const SHOW_EXAMPLES = `
Examples:
  $ sluice history get orders 42
  $ sluice history get orders 42 --json | jq .payload`

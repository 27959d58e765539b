import type { Command } from 'commander'
import { nearest } from '../../basics/words/nearest.ts'
import type { Explanation, Operate } from '../../index.ts'
import { parse } from '../arguments/options.ts'
import { MESSAGE_ID } from '../arguments/which-message.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'
import { formatExplanation } from '../show/explanation.ts'

interface ExplainOptions extends JsonOptions {
  readonly dedupeKey?: string
  readonly schedule?: string
}

/** `sluice explain` */
export function addExplain(program: Command): void {
  program
    .command('explain')
    .description('Explain why a message is not running, or why nothing moves in a queue.')
    .argument('[queue]', 'the queue; of a group <stream>:<group>', parse.queue)
    .argument('[id]', MESSAGE_ID, parse.id)
    .option('-k, --dedupe-key <key>', 'a dedupe key, instead of the id: who has it, and until when')
    .option('--schedule <name>', 'a schedule, instead of a queue: why it has not enqueued a message')
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(showExplanation)
}

async function showExplanation(
  queue: string | undefined,
  id: string | undefined,
  { dedupeKey, schedule, json }: ExplainOptions,
  command: Command,
): Promise<void> {
  if ((queue === undefined) === (schedule === undefined))
    command.error(`error: expected a queue or --schedule, received ${queue === undefined ? 'neither' : 'both'}`)
  if (schedule !== undefined && dedupeKey !== undefined)
    command.error('error: expected a schedule or --dedupe-key, received both')
  if (id !== undefined && dedupeKey !== undefined)
    command.error('error: expected the id of a message or --dedupe-key, received both')
  const explanation = await operating(command, (operate) => {
    if (schedule !== undefined) return operate.schedules.explain(schedule)
    return explain(operate, queue ?? '', id, dedupeKey)
  })
  if (json) printJson(explanation)
  else print(formatExplanation(explanation, stdoutView()))
}

function explain(
  operate: Operate,
  queue: string,
  id: string | undefined,
  dedupeKey: string | undefined,
): Promise<Explanation> {
  if (dedupeKey !== undefined) return operate.messages.explain(queue, { dedupeKey })
  if (id === undefined) return explainQueue(operate, queue)
  const [stream = '', position] = id.split('/')
  if (position === undefined) return operate.messages.explain(queue, id)
  return explainEvent(operate, queue, stream, Number(position))
}

/** A number is the name of a queue too, and most likely the id of a message whose queue was left out. */
async function explainQueue(operate: Operate, queue: string): Promise<Explanation> {
  const explanation = await operate.queues.explain(queue)
  if (explanation.headline.reason !== 'unknown_queue' || !/^\d{1,18}$/.test(queue)) return explanation
  const { headline: found } = await operate.messages.explain(queue, queue)
  const command = found.reason === 'other_queue' ? found.remedy : null
  note(`If ${queue} is the id of a message, name its queue too: ${command ?? `npx sluice explain <queue> ${queue}`}`)
  return explanation
}

/** @throws CommandRefusal naming a group that there is */
async function explainEvent(operate: Operate, queue: string, stream: string, position: number): Promise<Explanation> {
  const groups = (await operate.groups.list({ stream })).map(({ group }) => `${stream}:${group}`)
  if (groups.includes(queue)) return operate.groups.explain(stream, queue.slice(stream.length + 1), position)
  const [meant = groups[0]] = nearest(queue, new Set(groups))
  const event = `${stream}/${position}`
  throw new CommandRefusal(
    meant === undefined
      ? `${event} is an event, and no group reads a stream "${stream}".`
      : `${event} is an event, and "${queue}" is no group of its stream: name one, as in sluice explain ${meant} ${event}.`,
  )
}

const EXAMPLES = `
The first reason is the main one. Below each reason is a command that changes it, if there is one.

Examples:
  $ sluice explain orders 42
  $ sluice explain orders
  $ sluice explain orders --dedupe-key 'invoice 17'
  $ sluice explain orders:billing orders/7
  $ sluice explain --schedule nightly
  $ sluice explain orders 42 --json | jq -r .headline.reason`

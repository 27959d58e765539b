import type { Command } from 'commander'
import type { CancelAnswer, ChangeAnswer, Operate, WhichMessage } from '../../../index.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { eventResolved, namesOf, oneMessage, whichMessage } from '../../arguments/which-message.ts'
import { operating } from '../../connect.ts'
import { print } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { forDead } from './for-dead.ts'

/** `sluice message cancel`, `change`, `reschedule`, `run-now` and `free-key` */
export function addMessageChanges(message: Command): void {
  for (const add of [addCancel, addChange, addReschedule, addRunNow, addFreeKey]) add(message)
}

function addCancel(message: Command): void {
  oneMessage(message.command('cancel'))
    .description('Cancel a message. If it is in flight, its handler is asked to stop.')
    .addHelpText('after', CANCEL_EXAMPLES)
    .action(async (queue: string, id: string | undefined, options: KeyOption, command: Command) => {
      const answer = await run(command, queue, id, options, (operate, which) => operate.messages.cancel(queue, which))
      const asked = 'It is in flight in a transaction: its handler is asked to stop. To see what becomes of it:'
      const name = id ?? `--dedupe-key ${JSON.stringify(options.dedupeKey)}`
      print(
        answer.result === 'asked'
          ? `${asked} sluice message status ${queue} ${name}`
          : `Cancelled. It was ${answer.state}.`,
      )
    })
}

interface KeyOption {
  readonly dedupeKey?: string
}

interface MessageChangeFlags extends KeyOption {
  readonly payload?: unknown
  readonly priority?: number
  readonly type?: string
  readonly maxAttempts?: number
  readonly ttl?: number
}

function addChange(message: Command): void {
  oneMessage(message.command('change'))
    .description('Edit a waiting message: its payload, priority, type, attempts or ttl.')
    .option('--payload <json>', 'another payload', parse.json)
    .option('--priority <number>', 'from 0 (first) to 9', parse.priority)
    .option('-t, --type <type>', 'another type')
    .option(
      '--max-attempts <count>',
      'the number of failed attempts before it becomes a dead letter',
      parse.countTo(1_000_000),
    )
    .option('--ttl <duration>', 'its time to live, counted from the due time', parse.durationMs)
    .addHelpText('after', '\nExamples:\n  $ sluice message change orders 42 --priority 0 --ttl 1h')
    .action(async (queue: string, id: string | undefined, options: MessageChangeFlags, command: Command) => {
      const { dedupeKey: _, ...changes } = options
      if (Object.keys(changes).length === 0) command.error('error: expected something to change, such as --priority 0')
      await run(command, queue, id, options, (operate, which) => operate.messages.change(queue, which, changes))
      print('Changed.')
    })
}

interface RescheduleOptions extends KeyOption {
  readonly delay?: number
  readonly at?: Date
}

function addReschedule(message: Command): void {
  oneMessage(message.command('reschedule'))
    .description('Give a waiting message another due time.')
    .option('--delay <duration>', 'due this long from now (30s, 5m, 2h, 7d)', parse.durationMs)
    .option('--at <time>', 'or due at this time, such as 2030-01-31T09:00:00Z', parse.time)
    .addHelpText('after', RESCHEDULE_EXAMPLES)
    .action(async (queue: string, id: string | undefined, options: RescheduleOptions, command: Command) => {
      const { delay, at: dueAt } = options
      if ((delay === undefined) === (dueAt === undefined)) command.error('error: expected either --delay or --at')
      await run(command, queue, id, options, (operate, which) =>
        operate.messages.reschedule(queue, which, dueAt === undefined ? { delay: delay ?? 0 } : { dueAt }),
      )
      print('Rescheduled.')
    })
}

function addRunNow(message: Command): void {
  oneMessage(message.command('run-now'))
    .description('Make a waiting message due now, including one that waits for a retry.')
    .addHelpText('after', '\nExamples:\n  $ sluice message run-now orders 42')
    .action(async (queue: string, id: string | undefined, options: KeyOption, command: Command) => {
      await run(command, queue, id, options, (operate, which) => operate.messages.runNow(queue, which))
      print('It is due now.')
    })
}

function addFreeKey(message: Command): void {
  message
    .command('free-key')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<key>', 'the dedupe key')
    .description('Free a dedupe key that is kept after its message has gone.')
    .addHelpText('after', "\nExamples:\n  $ sluice message free-key orders 'invoice 17'")
    .action(async (queue: string, key: string, _options: object, command: Command) => {
      const result = await operating(command, async (operate) => operate.messages.freeKey(queue, key))
      if (result === 'taken')
        throw new CommandRefusal(`A message has the key: sluice message cancel ${queue} -k ${JSON.stringify(key)}`)
      print(result === 'freed' ? 'It is free.' : 'It was free.')
    })
}

const CANCEL_EXAMPLES = `
Examples:
  $ sluice message cancel orders 42
  $ sluice message cancel orders --dedupe-key 'invoice 17'`

const RESCHEDULE_EXAMPLES = `
Examples:
  $ sluice message reschedule orders 42 --delay 2h
  $ sluice message reschedule orders 42 --at 2030-01-31T09:00:00Z`

/** Does it, or says why it could not be done. */
async function run<Answer extends CancelAnswer | ChangeAnswer>(
  command: Command,
  queue: string,
  id: string | undefined,
  { dedupeKey }: KeyOption,
  work: (operate: Operate, which: WhichMessage) => Promise<Answer>,
): Promise<Answer> {
  const named = whichMessage(id, dedupeKey, command)
  return operating(command, async (operate) => {
    const which = await eventResolved(operate, queue, named)
    const { one, none } = namesOf(which)
    const answer = await work(operate, which)
    if (answer.result === 'busy')
      throw new CommandRefusal(
        `${one} of queue "${queue}" holds its key, and a batch has locked the key's slot: try again.`,
      )
    if (answer.state === 'unknown')
      throw new CommandRefusal(`Queue "${queue}" has no ${none}.${await didYouMean(operate, queue)}`)
    if (answer.result === 'nothing' || answer.result === 'refused') {
      const words = `${one} of queue "${queue}" is not waiting: it is ${answer.state}. Nothing has changed.`
      throw new CommandRefusal(answer.state === 'dead' ? `${words} ${forDead(command.name(), queue, which)}` : words)
    }
    return answer
  })
}

import type { Command } from 'commander'
import { counted } from '../../../basics/words/sentences.ts'
import type { DeadLetterChoice, DeadLetterFilter, Operate } from '../../../index.ts'
import { addDeadFilter, type DeadFilterOptions, readDeadFilter } from '../../arguments/dead-filter.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { assertConfirmed } from '../../confirm.ts'
import { operating } from '../../connect.ts'
import { note, print, stdoutView } from '../../output.ts'
import { formatPlan } from '../../show/dead-letters.ts'

/** `sluice dead redrive` */
export function addDeadRedrive(dead: Command): void {
  addChange(dead.command('redrive'), REDRIVE)
    .description('Put dead letters back into their queues: due now, with the same ids and no attempts counted.')
    .addHelpText('after', REDRIVE_EXAMPLES)
}

/** `sluice dead delete` */
export function addDeadDelete(dead: Command): void {
  addChange(dead.command('delete'), DELETE)
    .description('Delete dead letters for good.')
    .addHelpText('after', DELETE_EXAMPLES)
}

/** A change of all dead letters that match. */
interface Change {
  /** 'Redrive' */
  readonly verb: string
  /** 'Redriven' */
  readonly done: string
  readonly run: (operate: Operate, choice: DeadLetterChoice) => Promise<number>
}

const REDRIVE: Change = {
  verb: 'Redrive',
  done: 'Redriven',
  run: (operate, choice) => operate.deadLetters.redrive(choice),
}
const DELETE: Change = {
  verb: 'Delete',
  done: 'Deleted',
  run: (operate, choice) => operate.deadLetters.delete(choice),
}

interface DeadChangeFlags extends DeadFilterOptions {
  readonly allQueues?: true
  readonly dryRun?: true
  readonly yes?: true
}

function addChange(command: Command, change: Change): Command {
  return addDeadFilter(command)
    .option('--all-queues', 'of all queues, instead of one')
    .option('--dry-run', 'only show what would be done')
    .option('-y, --yes', 'do not ask')
    .action((queue: string | undefined, options: DeadChangeFlags) => changeDead(change, queue, options, command))
}

/** Shows what the change will do, asks for confirmation, and does it. */
async function changeDead(
  change: Change,
  queue: string | undefined,
  options: DeadChangeFlags,
  command: Command,
): Promise<void> {
  if (queue === undefined && options.allQueues === undefined) {
    command.error('error: name a queue, or give --all-queues')
  }
  if (queue !== undefined && options.allQueues !== undefined) {
    command.error('error: name a queue, or give --all-queues, but not both')
  }
  await operating(command, async (operate) => {
    const filter = await readDeadFilter(operate, queue, options)
    const total = await showPlan(operate, change, filter)
    if (options.dryRun) note('Nothing has changed: this is a dry run.')
    if (total === 0 || options.dryRun) return
    await assertConfirmed(`${change.verb} ${counted(total, 'dead letter')}?`, options)
    const { queue: _, ...match } = filter
    const choice = queue === undefined ? { ...match, allQueues: true as const } : { ...match, queue }
    print(`${change.done} ${counted(await change.run(operate, choice), 'dead letter')}.`)
  })
}

async function showPlan(operate: Operate, { verb }: Change, filter: DeadLetterFilter): Promise<number> {
  const summary = await operate.deadLetters.summarise(filter)
  if (summary.total === 0) {
    print(`No dead letters match.${await didYouMean(operate, filter.queue)}`)
    return 0
  }
  const { deadLetters } = await operate.deadLetters.list({ ...filter, limit: EXAMPLES_SHOWN })
  print(`${verb} ${counted(summary.total, 'dead letter')}:\n\n${formatPlan(summary, deadLetters, stdoutView())}\n`)
  return summary.total
}

const EXAMPLES_SHOWN = 3

const REDRIVE_EXAMPLES = `
Examples:
  $ sluice dead redrive orders --dry-run
  $ sluice dead redrive orders --id 42 --id 43
  $ sluice dead redrive orders --type order.paid --newer-than 2h --yes

On a terminal it shows what it will do, and asks. Without a terminal it changes nothing unless --yes is given.`

const DELETE_EXAMPLES = `
Examples:
  $ sluice dead delete orders --id 42
  $ sluice dead delete orders --older-than 30d --dry-run
  $ sluice dead delete --all-queues --older-than 30d --yes

On a terminal it shows what it will do, and asks. Without a terminal it changes nothing unless --yes is given.`

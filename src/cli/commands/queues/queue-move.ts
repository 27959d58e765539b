import type { Command } from 'commander'
import { counted } from '../../../basics/words/sentences.ts'
import type { Moved, Operate } from '../../../index.ts'
import { assertKnown, didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { addWaitingFilter, type WaitingFilterOptions, waitingFilterOf } from '../../arguments/waiting-filter.ts'
import { assertConfirmed } from '../../confirm.ts'
import { operating } from '../../connect.ts'
import { note, print } from '../../output.ts'

interface MoveOptions extends WaitingFilterOptions {
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice queue move` */
export function addQueueMove(queue: Command): void {
  addWaitingFilter(queue.command('move'))
    .description('Move the messages of a queue that are not in flight to another queue, all or those that match.')
    .argument('<queue>', 'the queue that they are in, such as one with a misspelt name', parse.queue)
    .argument('<target>', 'the queue that they are moved to', parse.queue)
    .option('--dry-run', 'only count them')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', EXAMPLES)
    .action(move)
}

/** Counts, asks, and moves what was enqueued before it counted. */
async function move(queue: string, target: string, options: MoveOptions, command: Command): Promise<void> {
  if (queue === target) command.error('error: expected two queues, received the same one twice')
  await operating(command, async (operate) => {
    const filter = await waitingFilterOf(operate, options)
    const planned = await operate.queues.move(queue, target, { ...filter, dryRun: true })
    if (planned.moved === 0 && !options.yes) await assertKnown(operate, queue)
    const total = counted(planned.moved, 'message')
    if (planned.moved > 0) print(`Move ${total} of queue ${queue} to queue ${target}.`)
    else print('No messages to move.')
    noteLeft(planned, target)
    if (planned.moved === 0) return
    const warning = await whyNobody(operate, target)
    if (warning !== '') note(warning)
    if (options.dryRun) return note('Nothing has changed: this is a dry run.')
    await assertConfirmed(`Move ${total} to ${target}?`, options)
    const done = await operate.queues.move(queue, target, filter)
    print(`Moved ${counted(done.moved, 'message')}.`)
    noteLeft(done, target)
  })
}

/** What is wrong with the target, if anything: the next misspelt name. */
async function whyNobody(operate: Operate, target: string): Promise<string> {
  const unknown = await didYouMean(operate, target)
  if (unknown !== '') return `Target "${target}":${unknown}`
  const workers = await operate.workers.list({ queue: target })
  return workers.some(({ alive }) => alive) ? '' : `Target "${target}": no live worker consumes it.`
}

function noteLeft({ inFlight, held, duplicates }: Moved, target: string): void {
  const reasons = [
    [inFlight, 'in flight'],
    [held, 'behind a message of the same ordering key that stays'],
    [duplicates, `with a dedupe key that is taken in ${target}`],
  ] as const
  const left = reasons.filter(([count]) => count > 0).map(([count, why]) => `${count} ${why}`)
  if (left.length > 0) note(`Left where they are: ${left.join(', ')}.`)
}

const EXAMPLES = `
Examples:
  $ sluice queue move ordres orders --dry-run
  $ sluice queue move ordres orders --yes
  $ sluice queue move imports imports-slow --tenant acme --state ready

Dead letters stay: sluice dead redrive puts them back first.
On a terminal it shows what it will do, and asks. Without a terminal it changes nothing unless --yes is given.`

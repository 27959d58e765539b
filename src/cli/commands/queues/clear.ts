import type { Command } from 'commander'
import { counted } from '../../../basics/words/sentences.ts'
import { assertKnown } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { addWaitingFilter, type WaitingFilterOptions, waitingFilterOf } from '../../arguments/waiting-filter.ts'
import { assertConfirmed } from '../../confirm.ts'
import { operating } from '../../connect.ts'
import { note, print } from '../../output.ts'

interface ClearOptions extends WaitingFilterOptions {
  readonly freeKeys?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice clear` */
export function addClear(program: Command): void {
  addWaitingFilter(program.command('clear'))
    .description('Remove the messages of a queue that are not in flight, all or those that match.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--free-keys', 'also free dedupe keys that are kept after their messages have gone')
    .option('--dry-run', 'only count them')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', EXAMPLES)
    .action(clear)
}

/** Counts, asks, and removes what was enqueued before it counted. */
async function clear(queue: string, options: ClearOptions, command: Command): Promise<void> {
  await operating(command, async (operate) => {
    const filter = await waitingFilterOf(operate, options)
    const total = await operate.queues.clear(queue, { ...filter, dryRun: true })
    const keys = await operate.queues.freeKeys(queue, { dryRun: true })
    if (total + keys === 0 && !options.yes) await assertKnown(operate, queue)
    const freed = options.freeKeys ? keys : 0
    if (total > 0)
      print(`Remove ${counted(total, 'message')} of queue ${queue} for good: ${leaves(total)} no dead letter.`)
    else print('No messages match.')
    if (options.freeKeys) print(keysText(freed))
    if (freed < keys) note(`${counted(keys, 'dedupe key')} ${keys === 1 ? 'is' : 'are'} kept: see --free-keys.`)
    if (total + freed === 0) return
    if (options.dryRun) return note('Nothing has changed: this is a dry run.')
    await assertConfirmed(questionOn(total, freed), options)
    print(`Removed ${counted(await operate.queues.clear(queue, filter), 'message')}.`)
    if (options.freeKeys) print(`Freed ${counted(await operate.queues.freeKeys(queue), 'dedupe key')}.`)
  })
}

function questionOn(messages: number, keys: number): string {
  return messages > 0 ? `Remove ${counted(messages, 'message')}?` : `Free ${counted(keys, 'dedupe key')}?`
}

function leaves(messages: number): string {
  return messages === 1 ? 'it leaves' : 'they leave'
}

function keysText(keys: number): string {
  return keys > 0 ? `Free ${counted(keys, 'kept dedupe key')}.` : 'There are no kept dedupe keys.'
}

const EXAMPLES = `
Examples:
  $ sluice clear newsletters --dry-run
  $ sluice clear orders --type order.reminded --older-than 1d
  $ sluice clear orders --state expired --yes
  $ sluice clear reports --free-keys

On a terminal it shows what it will do, and asks. Without a terminal it changes nothing unless --yes is given.`

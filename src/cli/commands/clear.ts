import { type Command, InvalidArgumentError } from 'commander'
import type { ClearFilter } from '../../index.ts'
import { WAITING_STATES } from '../../message.ts'
import { assertConfirmed } from '../confirm.ts'
import { didYouMean, operating } from '../connect.ts'
import { parse } from '../options.ts'
import { note, print } from '../output.ts'
import { counted } from '../show/text.ts'

interface ClearOptions {
  readonly type?: string
  readonly orderingKey?: string
  readonly tenant?: string
  readonly state?: NonNullable<ClearFilter['state']>
  readonly olderThan?: number
  readonly newerThan?: number
  readonly freeKeys?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice clear` */
export function addClear(program: Command): void {
  program
    .command('clear')
    .description('Remove the messages of a queue that are not in flight, all or those that match.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('-t, --type <type>', 'only messages of this type')
    .option('-k, --ordering-key <key>', 'only messages with this ordering key')
    .option('--tenant <tenant>', 'only messages of this tenant')
    .option('-s, --state <state>', `only messages in this state: ${WAITING_STATES.join(', ')}`, stateOf)
    .option('--older-than <duration>', 'only those that were enqueued longer ago than this', parse.durationMs)
    .option('--newer-than <duration>', 'only those that were enqueued more recently than this', parse.durationMs)
    .option('--free-keys', 'also free dedupe keys that are kept after their messages have gone')
    .option('--dry-run', 'only count them')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', EXAMPLES)
    .action(clear)
}

function stateOf(text: string): NonNullable<ClearOptions['state']> {
  const state = WAITING_STATES.find((known) => known === text)
  if (state !== undefined) return state
  const elsewhere = ELSEWHERE.get(text)
  throw new InvalidArgumentError(`Expected one of ${WAITING_STATES.join(', ')}.${elsewhere ? ` ${elsewhere}` : ''}`)
}

/** States of messages that are removed in another way. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['dead', 'To delete dead letters: sluice dead delete'],
  ['in_flight', 'To stop a message in flight: sluice message cancel'],
])

/** Counts, asks, and removes what was enqueued before it counted. */
async function clear(queue: string, options: ClearOptions, command: Command): Promise<void> {
  await operating(command, async (operate) => {
    const nowMs = (await operate.now()).getTime()
    const { olderThan, newerThan, type, tenant, state, orderingKey } = options
    const filter: ClearFilter = {
      type,
      tenant,
      state,
      orderingKey,
      enqueuedBefore: new Date(nowMs - (olderThan ?? 0)),
      enqueuedAfter: newerThan === undefined ? undefined : new Date(nowMs - newerThan),
    }
    const total = await operate.queues.clear(queue, { ...filter, dryRun: true })
    const keys = await operate.queues.freeKeys(queue, { dryRun: true })
    const freed = options.freeKeys ? keys : 0
    if (total > 0)
      print(`Remove ${counted(total, 'message')} of queue ${queue} for good: ${leaves(total)} no dead letter.`)
    else print(`No messages match.${await didYouMean(operate, queue)}`)
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

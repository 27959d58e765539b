import { type Command, Option } from 'commander'
import { counted } from '../../../basics/words/sentences.ts'
import type { StreamOffset } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { parse } from '../../arguments/options.ts'
import { assertConfirmed } from '../../confirm.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { formatGroups } from '../../show/streams.ts'
import { BY, whoever } from '../../whoever.ts'
import { addGroupPartitions } from './group-partitions.ts'
import { offsetOf } from './stream.ts'

/** `sluice group …` */
export function addGroup(program: Command): void {
  const group = program
    .command('group')
    .description('Set up, list, seek, pause and delete groups: each reads a stream at its own pace.')
    .addHelpText('after', EXAMPLES)
  addCommands(group, [addList, addGroupPartitions, addSet, addSeek, addRetry, addSkip, addPause, addResume, addDelete])
}

/** `sluice group list` */
function addList(group: Command): void {
  group
    .command('list')
    .description('List the groups: unread and deferred events, and workers.')
    .argument('[stream]', 'only of this stream')
    .option('--json', 'print a JSON array')
    .addHelpText('after', '\nExamples:\n  $ sluice group list orders')
    .action(async (stream: string | undefined, { json }: JsonOptions, command: Command) => {
      const only = stream === undefined ? {} : { stream }
      const groups = await operating(command, async (operate) => {
        const found = await operate.groups.list(only)
        if (found.length > 0 || stream === undefined || (await operate.streams.list({ stream })).length > 0)
          return found
        return command.error(`error: expected a stream, received "${stream}". See sluice stream list.`)
      })
      if (json) printJson(groups)
      else if (groups.length === 0) note(stream === undefined ? 'There are no groups.' : `${stream} has no groups.`)
      else print(formatGroups(groups, stdoutView()))
    })
}

interface GroupSetFlags {
  readonly from: StreamOffset
  readonly onFailure?: 'defer' | 'stop'
  readonly deferLimit?: number
}

/** `sluice group set` */
function addSet(group: Command): void {
  group
    .command('set')
    .description('Make a group, or change its options. An existing group keeps its progress.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--from <offset>', 'where a new group begins: start, end, a position, or a time', offsetOf, 'end')
    .addOption(
      new Option(
        '--on-failure <what>',
        'what to do with a failed event: defer it with the later ones of its key, or stop its partition',
      ).choices(['defer', 'stop']),
    )
    .option(
      '--defer-limit <n>',
      'how many events may be deferred; further failures block their partitions',
      parse.countTo(2_147_483_647),
    )
    .addHelpText('after', '\nExamples:\n  $ sluice group set orders billing --from start')
    .action(async (stream: string, name: string, options: GroupSetFlags, command: Command) => {
      const made = await operating(command, (operate) => operate.groups.set(stream, name, options))
      print(made ? 'Made.' : 'It already existed, and keeps its progress.')
    })
}

interface SeekFlags {
  readonly to: StreamOffset
  readonly keepDeferred?: true
  readonly dropDeferred?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice group seek` */
function addSeek(group: Command): void {
  group
    .command('seek')
    .description('Move a group to an offset, forward or back.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .requiredOption('--to <offset>', 'where it reads on: start, end, a position, or a time', offsetOf)
    .option('--keep-deferred', 'keep its deferred events, and retry them as well')
    .option('--drop-deferred', 'drop its deferred events')
    .option('--dry-run', 'only show what would be done')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice group seek orders billing --to 2030-01-31T09:00:00Z --dry-run')
    .action(seek)
}

async function seek(stream: string, name: string, options: SeekFlags, command: Command): Promise<void> {
  const { to, keepDeferred, dropDeferred, dryRun, yes } = options
  if (keepDeferred && dropDeferred) command.error('error: give --keep-deferred or --drop-deferred, but not both')
  const deferred = keepDeferred ? 'keep' : dropDeferred ? 'drop' : undefined
  await operating(command, async (operate) => {
    const { events, before } = await operate.groups.seek(stream, name, to, { dryRun: true })
    print(`${stream}, ${name}: ${counted(events, 'event')} to read then, ${before} now`)
    if (dryRun) return
    await assertConfirmed(`Move the group ${name} of ${stream}?`, yes ? { yes } : {})
    const { dropped } = await operate.groups.seek(stream, name, to, { deferred })
    print(dropped === 0 ? 'Moved.' : `Moved, and ${counted(dropped, 'deferred event')} dropped.`)
  })
}

/** `sluice group retry` */
function addRetry(group: Command): void {
  group
    .command('retry')
    .description('Retry the failed events that block partitions of a group, now.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--partition <n>', 'only this partition', parse.partition)
    .addHelpText('after', '\nExamples:\n  $ sluice group retry orders billing')
    .action(async (stream: string, name: string, options: { readonly partition?: number }, command: Command) => {
      const freed = await operating(command, (operate) => operate.groups.retry(stream, name, options))
      print(freed === 0 ? 'No partition was blocked.' : `Unblocked ${counted(freed, 'partition')}.`)
    })
}

/** `sluice group skip` */
function addSkip(group: Command): void {
  group
    .command('skip')
    .description('Skip a failed event that blocks a partition of a group. It becomes a dead letter.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .argument('<position>', 'the position of the event', parse.countTo(Number.MAX_SAFE_INTEGER))
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice group skip orders billing 4711')
    .action(skip)
}

async function skip(
  stream: string,
  name: string,
  position: number,
  options: { readonly yes?: true },
  command: Command,
) {
  await assertConfirmed(`Skip event ${position} in the group ${name} of ${stream}?`, options)
  const skipped = await operating(command, (operate) => operate.groups.skip(stream, name, position))
  if (!skipped)
    throw new CommandRefusal(`Event ${position} blocks no partition of group ${name}. See sluice group list ${stream}`)
  print('Skipped.')
}

interface PauseOptions {
  readonly by?: string
  readonly reason?: string
}

/** `sluice group pause` */
function addPause(group: Command): void {
  group
    .command('pause')
    .description('Pause a group: no worker reads for it until it is resumed. Events in flight continue.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--reason <text>', 'why, for others to see')
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice group pause orders billing --reason rollout')
    .action(async (stream: string, name: string, { by, reason }: PauseOptions, command: Command) => {
      const options = { by: by ?? whoever(), reason }
      const paused = await operating(command, (operate) => operate.groups.pause(stream, name, options))
      print(paused ? 'Paused.' : 'It was paused already.')
    })
}

/** `sluice group resume` */
function addResume(group: Command): void {
  group
    .command('resume')
    .description('End the pause of a group.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice group resume orders billing')
    .action(async (stream: string, name: string, { by }: PauseOptions, command: Command) => {
      const options = { by: by ?? whoever() }
      const resumed = await operating(command, (operate) => operate.groups.resume(stream, name, options))
      print(resumed ? 'Resumed.' : 'It was not paused.')
    })
}

/** `sluice group delete` */
function addDelete(group: Command): void {
  group
    .command('delete')
    .description('Delete a group with its deferred events, its dead letters and the settings of its queue.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice group delete orders billing')
    .action(async (stream: string, name: string, options: { readonly yes?: true }, command: Command) => {
      await assertConfirmed(`Delete the group ${name} of ${stream} with all its data?`, options)
      const gone = await operating(command, (operate) => operate.groups.delete(stream, name))
      const [deferred, dead] = [counted(gone.deferred, 'deferred event'), counted(gone.deadLetters, 'dead letter')]
      print(`Deleted, with ${deferred} and ${dead}.`)
    })
}

const EXAMPLES = `
Examples:
  $ sluice group set orders billing --from start
  $ sluice group list
  $ sluice group seek orders billing --to 4711 --dry-run
  $ sluice group delete orders billing`

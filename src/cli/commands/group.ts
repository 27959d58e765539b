import { type Command, Option } from 'commander'
import type { StreamPlace } from '../../index.ts'
import { assertConfirmed } from '../confirm.ts'
import { operating } from '../connect.ts'
import { parse } from '../options.ts'
import { note, print, printJson, stdoutView } from '../output.ts'
import { Refusal } from '../report-error.ts'
import { formatGroups } from '../show/streams.ts'
import { counted } from '../show/text.ts'
import { BY, whoever } from '../whoever.ts'
import { placeOf } from './stream.ts'

/** `sluice group …` */
export function addGroup(program: Command): void {
  const group = program
    .command('group')
    .description('Make, list, move, pause and delete groups: each reads a stream at its own pace.')
    .helpCommand('help [command]', 'print help for a command')
    .addHelpText('after', EXAMPLES)
  for (const add of [addList, addCreate, addSeek, addRetry, addSkip, addPause, addResume, addDelete]) add(group)
}

interface JsonOptions {
  readonly json?: true
}

/** `sluice group list` */
function addList(group: Command): void {
  group
    .command('list')
    .description('List the groups: what they have to read, what is parked, who reads.')
    .argument('[stream]', 'only of this stream')
    .option('--json', 'print a JSON array')
    .addHelpText('after', '\nExamples:\n  $ sluice group list orders')
    .action(async (stream: string | undefined, { json }: JsonOptions, command: Command) => {
      const only = stream === undefined ? {} : { stream }
      const groups = await operating(command, async (operate) => {
        const found = await operate.streams.groups(only)
        if (found.length > 0 || stream === undefined || (await operate.streams.list({ stream })).length > 0)
          return found
        return command.error(`error: expected a stream, received "${stream}". See sluice stream list.`)
      })
      if (json) printJson(groups)
      else if (groups.length === 0) note(stream === undefined ? 'There are no groups.' : `${stream} has no groups.`)
      else print(formatGroups(groups, stdoutView()))
    })
}

interface CreateOptions {
  readonly from: StreamPlace
  readonly onFailure?: 'park' | 'stop'
  readonly parkLimit?: number
}

/** `sluice group create` */
function addCreate(group: Command): void {
  group
    .command('create')
    .description('Make a group. One that is there stays where it is.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--from <place>', 'where to begin: start, end, a position, or a time', placeOf, 'end')
    .addOption(
      new Option('--on-failure <what>', 'park a failed event with the later ones of its key, or stop its slot').choices(
        ['park', 'stop'],
      ),
    )
    .option('--park-limit <n>', 'so many events may be parked before slots wait', parse.countTo(2_147_483_647))
    .addHelpText('after', '\nExamples:\n  $ sluice group create orders billing --from start')
    .action(async (stream: string, name: string, options: CreateOptions, command: Command) => {
      const made = await operating(command, (operate) => operate.streams.group(stream, name, options))
      print(made ? 'Made.' : 'It was there already, and stays where it is.')
    })
}

interface SeekOptions {
  readonly to: StreamPlace
  readonly keepParked?: true
  readonly dropParked?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice group seek` */
function addSeek(group: Command): void {
  group
    .command('seek')
    .description('Move a group to a place, forward or back.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .requiredOption('--to <place>', 'where it reads on: start, end, a position, or a time', placeOf)
    .option('--keep-parked', 'have its parked events tried again as well')
    .option('--drop-parked', 'remove its parked events')
    .option('--dry-run', 'only show what would be done')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice group seek orders billing --to 2030-01-31T09:00:00Z --dry-run')
    .action(seek)
}

async function seek(stream: string, name: string, options: SeekOptions, command: Command): Promise<void> {
  const { to, keepParked, dropParked, dryRun, yes } = options
  if (keepParked && dropParked) command.error('error: give --keep-parked or --drop-parked, but not both')
  const parked = keepParked ? 'keep' : dropParked ? 'drop' : undefined
  await operating(command, async (operate) => {
    const { events, before } = await operate.streams.seek(stream, name, to, { dryRun: true })
    print(`${stream}, ${name}: ${counted(events, 'event')} to read then, ${before} now`)
    if (dryRun) return
    await assertConfirmed(`Move the group ${name} of ${stream}?`, yes ? { yes } : {})
    const { dropped } = await operate.streams.seek(stream, name, to, { parked })
    print(dropped === 0 ? 'Moved.' : `Moved, and ${counted(dropped, 'parked event')} removed.`)
  })
}

/** `sluice group retry` */
function addRetry(group: Command): void {
  group
    .command('retry')
    .description('Try failed events again now for which slots of a group wait.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--slot <n>', 'only this slot', parse.slot)
    .addHelpText('after', '\nExamples:\n  $ sluice group retry orders billing')
    .action(async (stream: string, name: string, options: { readonly slot?: number }, command: Command) => {
      const freed = await operating(command, (operate) => operate.streams.retrySlots(stream, name, options))
      print(freed === 0 ? 'No slot was waiting.' : `${counted(freed, 'slot')} ${freed === 1 ? 'goes' : 'go'} on.`)
    })
}

/** `sluice group skip` */
function addSkip(group: Command): void {
  group
    .command('skip')
    .description('Pass over a failed event for which a slot of a group waits. It becomes a dead letter.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .argument('<position>', 'of the event', parse.countTo(Number.MAX_SAFE_INTEGER))
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
  await assertConfirmed(`Let the group ${name} of ${stream} pass over event ${position}?`, options)
  const skipped = await operating(command, (operate) => operate.streams.skipEvent(stream, name, position))
  if (!skipped)
    throw new Refusal(`No slot of group ${name} waits for event ${position}. See sluice group list ${stream}`)
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
    .description('Let nobody read for a group, until it is resumed. What is in hand goes on.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--reason <text>', 'why, for others to see')
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice group pause orders billing --reason rollout')
    .action(async (stream: string, name: string, { by, reason }: PauseOptions, command: Command) => {
      const options = { by: by ?? whoever(), reason }
      const paused = await operating(command, (operate) => operate.streams.pause(stream, name, options))
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
      const resumed = await operating(command, (operate) => operate.streams.resume(stream, name, options))
      print(resumed ? 'Resumed.' : 'It was not paused.')
    })
}

/** `sluice group delete` */
function addDelete(group: Command): void {
  group
    .command('delete')
    .description('Delete a group with its parked events, its dead letters and the settings of its queue.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice group delete orders billing')
    .action(async (stream: string, name: string, options: { readonly yes?: true }, command: Command) => {
      await assertConfirmed(`Delete the group ${name} of ${stream} and what is its own?`, options)
      const gone = await operating(command, (operate) => operate.streams.deleteGroup(stream, name))
      const [parked, dead] = [counted(gone.messages, 'parked event'), counted(gone.deadLetters, 'dead letter')]
      print(`Deleted, with ${parked} and ${dead}.`)
    })
}

const EXAMPLES = `
Examples:
  $ sluice group create orders billing --from start
  $ sluice group list
  $ sluice group seek orders billing --to 4711 --dry-run
  $ sluice group delete orders billing`

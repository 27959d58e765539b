import { type Command, InvalidArgumentError } from 'commander'
import type { Duration, ScheduleDefinition } from '../../index.ts'
import { addCommands } from '../add-commands.ts'
import { didYouMean } from '../arguments/known-queue.ts'
import { onSchedule } from '../arguments/known-schedule.ts'
import { type MessageOptions, messageOptions } from '../arguments/message-options.ts'
import { parse } from '../arguments/options.ts'
import { assertConfirmed } from '../confirm.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'
import { formatSchedules } from '../show/schedules.ts'
import { formatDue, printable } from '../show/text.ts'
import { BY, whoever } from '../whoever.ts'

/** `sluice schedule …` */
export function addSchedule(program: Command): void {
  const schedule = program
    .command('schedule')
    .description('Set, list, pause, run and delete schedules: messages that are enqueued at given times.')
    .addHelpText('after', EXAMPLES)
  addCommands(schedule, [addList, addGet, addSet, addPause, addResume, addRunNow, addDelete, addNext])
}

/** `sluice schedule list` */
function addList(schedule: Command): void {
  schedule
    .command('list')
    .description('List the schedules by name.')
    .argument('[queue]', 'only of this queue', parse.queue)
    .option('--json', 'print a JSON array')
    .addHelpText('after', exampleOf('list reports'))
    .action(async (queue: string | undefined, { json }: JsonOptions, command: Command) => {
      const found = await operating(command, async (operate) => {
        const listed = await operate.schedules.list(queue === undefined ? {} : { queue })
        const ofQueue = queue === undefined ? '' : ` for queue "${queue}"`
        if (listed.length === 0) note(`There are no schedules${ofQueue}.${await didYouMean(operate, queue)}`)
        return listed
      })
      if (json) printJson(found.map(withContent))
      else if (found.length > 0) print(formatSchedules(found, stdoutView()))
    })
}

/** `sluice schedule get` */
function addGet(schedule: Command): void {
  schedule
    .command('get')
    .description('Show everything about a schedule, as JSON.')
    .argument('<name>', 'the schedule')
    .addHelpText('after', exampleOf('get nightly'))
    .action(async (name: string, _: object, command: Command) => {
      const found = await onSchedule(command, name, ({ schedules }) => schedules.get(name))
      printJson(withContent(found))
    })
}

interface ScheduleSetFlags extends MessageOptions {
  readonly cron?: string
  readonly every?: Duration
  readonly zone?: string
  readonly missed?: 'skip' | 'last' | 'all'
  readonly overlap: boolean
  readonly grace?: Duration
  readonly catchUp?: NonNullable<ScheduleDefinition['catchUp']>
}

/** `sluice schedule set` */
function addSet(schedule: Command): void {
  messageOptions(schedule.command('set'))
    .description('Make a schedule, or change it. An option that is not given gets its default.')
    .argument('<name>', 'the schedule')
    .argument('<queue>', 'the queue that gets its messages', parse.queue)
    .argument('[payload]', 'the content of its messages, as JSON (default: {})', parse.json)
    .option('--cron <expression>', 'when: five fields, six with seconds first, or seven with years last too')
    .option('--every <duration>', 'or how often, such as 15m', duration)
    .option('--zone <zone>', 'the time zone of --cron, such as Europe/Berlin (default: UTC)')
    .option('--missed <policy>', 'what to do with missed occurrences: skip (the default), last or all', missed)
    .option('--grace <duration>', 'how late an occurrence may be without being missed (default: 1m)', duration)
    .option('--catch-up <bounds>', 'with last or all: how many and how old at most (default: 100/7d)', catchUp)
    .option('--no-overlap', 'enqueue nothing while its last message is queued or in flight')
    .addHelpText('after', SET_EXAMPLES)
    .action(async (name: string, queue: string, payload: unknown, options: ScheduleSetFlags, command: Command) => {
      if ((options.cron === undefined) === (options.every === undefined))
        command.error(
          `error: expected either --cron or --every, received ${options.cron === undefined ? 'neither' : 'both'}`,
        )
      const definition = { queue, payload: payload === undefined ? {} : payload, ...options }
      const { outcome, nextAt } = await operating(command, ({ schedules }) => schedules.set(name, definition))
      print(
        `${outcome === 'unchanged' ? 'Unchanged' : `Schedule ${outcome}`}, next ${nextAt?.toISOString() ?? 'never'}`,
      )
    })
}

/** `sluice schedule pause` */
function addPause(schedule: Command): void {
  schedule
    .command('pause')
    .description('Pause a schedule: it enqueues nothing until it is resumed.')
    .argument('<name>', 'the schedule')
    .option('--reason <text>', 'why, for others to see')
    .option('--by <name>', BY)
    .addHelpText('after', exampleOf('pause nightly --reason maintenance'))
    .action(async (name: string, options: { readonly reason?: string; readonly by?: string }, command: Command) => {
      const { by = whoever(), reason } = options
      const done = await onSchedule(command, name, ({ schedules }) => schedules.pause(name, { by, reason }))
      print(done ? 'Paused.' : 'It is paused already.')
    })
}

/** `sluice schedule resume` */
function addResume(schedule: Command): void {
  schedule
    .command('resume')
    .description('End the pause of a schedule. Occurrences during the pause are not enqueued.')
    .argument('<name>', 'the schedule')
    .addHelpText('after', exampleOf('resume nightly'))
    .action(async (name: string, _: object, command: Command) => {
      const done = await onSchedule(command, name, ({ schedules }) => schedules.resume(name))
      print(done ? 'Resumed.' : 'It is not paused.')
    })
}

/** `sluice schedule run-now` */
function addRunNow(schedule: Command): void {
  schedule
    .command('run-now')
    .description('Enqueue a message of a schedule now, even while it is paused.')
    .argument('<name>', 'the schedule')
    .addHelpText('after', exampleOf('run-now nightly'))
    .action(async (name: string, _: object, command: Command) => {
      // Undefined is for a schedule that is unknown.
      const { id } = await onSchedule(command, name, async ({ schedules }) => ({ id: await schedules.runNow(name) }))
      if (id === undefined)
        throw new CommandRefusal(`Schedule "${name}" must not overlap, and its last message is still there.`)
      print(`Enqueued message ${id}.`)
    })
}

/** `sluice schedule delete` */
function addDelete(schedule: Command): void {
  schedule
    .command('delete')
    .description('Delete a schedule. Its messages stay.')
    .argument('<name>', 'the schedule')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', exampleOf('delete nightly'))
    .action(async (name: string, options: { readonly yes?: true }, command: Command) => {
      await onSchedule(command, name, async ({ schedules }) => {
        if ((await schedules.get(name)) === undefined) return undefined
        await assertConfirmed(`Delete the schedule ${name}?`, options)
        return (await schedules.delete(name)) || undefined
      })
      print('Deleted.')
    })
}

/** `sluice schedule next` */
function addNext(schedule: Command): void {
  schedule
    .command('next')
    .description('Show the next occurrences of a schedule.')
    .argument('<name>', 'the schedule')
    .option('-n, --count <count>', 'how many', parse.countTo(1_000), 5)
    .option('--json', 'print a JSON array')
    .addHelpText('after', exampleOf('next nightly --count 10'))
    .action(async (name: string, { count, json }: { count: number } & JsonOptions, command: Command) => {
      const { dates, zone, now, isPaused } = await onSchedule(command, name, async (operate) => {
        const found = await operate.schedules.get(name)
        if (found === undefined) return undefined
        const occurrences = await operate.schedules.next(name, count)
        return { dates: occurrences, zone: found.zone, now: await operate.now(), isPaused: found.paused !== null }
      })
      if (isPaused) note('It is paused: nothing is enqueued at these times before it is resumed.')
      if (json) return printJson(dates)
      if (dates.length === 0) return note('There is no further occurrence.')
      const lines = dates.map((date) => `${date.toISOString()}  ${local(date, zone)}  ${formatDue(+date - +now)}`)
      print(printable(lines.join('\n')))
    })
}

function local(date: Date, zone: string): string {
  const text = new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' }).format(date)
  return `${text} ${zone}`
}

function duration(text: string): Duration {
  parse.durationMs(text)
  return text as Duration
}

/** `100/7d`, or one of both. */
function catchUp(text: string): NonNullable<ScheduleDefinition['catchUp']> {
  const [, most, within] = /^(\d+)?(?:(?:^|\/)(\d+(?:ms|s|m|h|d)))?$/.exec(text) ?? []
  if (most === undefined && within === undefined)
    throw new InvalidArgumentError('Expected how many, how old, or both, such as 100, 7d or 100/7d.')
  return {
    ...(most === undefined ? {} : { most: Number(most) }),
    ...(within === undefined ? {} : { within: duration(within) }),
  }
}

function missed(text: string): 'skip' | 'last' | 'all' {
  if (text === 'skip' || text === 'last' || text === 'all') return text
  throw new InvalidArgumentError('Expected skip, last or all.')
}

function exampleOf(text: string): string {
  return `\nExamples:\n  $ sluice schedule ${text}`
}

const EXAMPLES = `
Examples:
  $ sluice schedule list
  $ sluice schedule set nightly reports --every 24h
  $ sluice schedule next nightly
  $ sluice schedule pause nightly --reason maintenance`

const SET_EXAMPLES = `
Examples:
  $ sluice schedule set nightly reports --cron '0 3 * * *' --zone Europe/Berlin
  $ sluice schedule set sync sync '{"full": false}' --every 15m --no-overlap`

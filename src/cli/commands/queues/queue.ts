import type { Command } from 'commander'
import type { QueueSettingsStatus } from '../../../index.ts'
import { pauseText } from '../../../operate/queues/pause-text.ts'
import { addCommands } from '../../add-commands.ts'
import { assertKnown, assertKnownOrConfirmed, noteUnknown } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../../output.ts'
import { settingsOf, settingsText } from '../../show/queue-settings.ts'
import { formatTable, type TableColumn } from '../../show/table.ts'
import { printable } from '../../show/text.ts'
import { BY, whoever } from '../../whoever.ts'
import { addQueueActivity } from './queue-activity.ts'
import { addQueueMove } from './queue-move.ts'
import { addQueueSet } from './queue-set.ts'

/** `sluice queue …` */
export function addQueue(program: Command): void {
  const queue = program
    .command('queue')
    .description('Pause and resume queues, change their settings while workers run, and move their messages.')
    .addHelpText('after', EXAMPLES)
  addCommands(queue, [addList, addGet, addQueueActivity, addQueueSet, addPause, addResume, addQueueMove])
}

/** `sluice queue list` */
function addList(queue: Command): void {
  queue
    .command('list')
    .description('List the queues that are paused or have settings. `sluice status` lists all.')
    .option('--json', 'print a JSON array')
    .addHelpText('after', '\nExamples:\n  $ sluice queue list')
    .action(async ({ json }: JsonOptions, command: Command) => {
      const { at, settings } = await operating(command, async (operate) => ({
        at: await operate.now(),
        settings: await operate.queues.settings.list(),
      }))
      if (json) printJson(settings)
      else if (settings.length === 0) note('No queue is paused or has settings.')
      else print(formatTable(columns(at), settings, stdoutView()))
    })
}

function columns(at: Date): readonly TableColumn<QueueSettingsStatus>[] {
  return [
    { title: 'QUEUE', cell: ({ queue }) => queue },
    { title: 'PAUSED', cell: (settings) => pauseText(settings, at) },
    { title: 'SETTINGS', cell: settingsText },
    { title: 'CHANGED BY', cell: ({ changedBy }) => changedBy },
  ]
}

/** `sluice queue get` */
function addGet(queue: Command): void {
  queue
    .command('get')
    .description('Show the settings of a queue, and its pause.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--json', 'print one JSON object, or null')
    .addHelpText('after', '\nExamples:\n  $ sluice queue get orders')
    .action(async (name: string, { json }: JsonOptions, command: Command) => {
      const { at, settings } = await operating(command, async (operate) => {
        await noteUnknown(operate, name)
        return { at: await operate.now(), settings: await operate.queues.settings.get(name) }
      })
      if (json) printJson(settings ?? null)
      else
        print(
          settings === undefined ? `Queue ${name} has no settings: the code decides.` : formatSettings(settings, at),
        )
    })
}

function formatSettings(settings: QueueSettingsStatus, at: Date): string {
  const paused = pauseText(settings, at)
  const rows = [...(paused === null ? [] : [['paused', paused] as const]), ...settingsOf(settings)]
  const width = Math.max(...rows.map(([name]) => name.length))
  const changed = `Changed ${settings.changedAt.toISOString()}${settings.changedBy === null ? '' : ` by ${settings.changedBy}`}.`
  return printable([...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`), changed].join('\n'))
}

interface ByOptions {
  readonly by: string
}

/** `sluice queue pause` */
function addPause(queue: Command): void {
  queue
    .command('pause')
    .description('Pause a queue: nothing is claimed from it until it is resumed. Messages in flight continue.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--reason <text>', 'why, for others to see')
    .option('--by <name>', BY)
    .option('-y, --yes', 'do not ask, also if no queue has this name')
    .addHelpText('after', PAUSE_EXAMPLES)
    .action(async (name: string, options: PauseOptions, command: Command) => {
      const { by = whoever(), reason } = options
      const answer = await operating(command, async (operate) => {
        await assertKnownOrConfirmed(operate, name, 'Pause it', options)
        const before = await operate.queues.settings.get(name)
        const now = await operate.queues.pause(name, { by, reason })
        return now ? `Paused ${name}.` : pausedBefore(name, before, reason, await operate.now())
      })
      print(answer)
    })
}

interface PauseOptions extends Partial<ByOptions> {
  readonly reason?: string
  readonly yes?: true
}

function pausedBefore(
  name: string,
  before: QueueSettingsStatus | undefined,
  reason: string | undefined,
  at: Date,
): string {
  const since = before === undefined ? null : pauseText(before, at)
  const already = since === null ? `${name} was paused already.` : `${name} was paused already, ${since}.`
  return printable(reason === undefined ? already : `${already} Now its reason is: ${reason}`)
}

/** `sluice queue resume` */
function addResume(queue: Command): void {
  queue
    .command('resume')
    .description('End the pause of a queue.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice queue resume orders')
    .action(async (name: string, { by = whoever() }: Partial<ByOptions>, command: Command) => {
      const now = await operating(command, async (operate) => {
        await assertKnown(operate, name)
        return operate.queues.resume(name, { by })
      })
      print(now ? `Resumed ${name}.` : `${name} was not paused.`)
    })
}

const EXAMPLES = `
Examples:
  $ sluice queue list
  $ sluice queue set orders --ttl 7d --max-attempts 5
  $ sluice queue pause orders --reason maintenance
  $ sluice queue resume orders`

const PAUSE_EXAMPLES = `
Examples:
  $ sluice queue pause orders --reason 'the shop is closed'`

import { type Command, InvalidArgumentError } from 'commander'
import type { StreamEvent, StreamPlace } from '../../index.ts'
import { assertConfirmed } from '../confirm.ts'
import { operating } from '../connect.ts'
import { parse } from '../options.ts'
import { note, print, printJson, stdoutView } from '../output.ts'
import { formatStreams } from '../show/streams.ts'
import { counted, oneLine } from '../show/text.ts'

/** `sluice stream …` */
export function addStream(program: Command): void {
  const stream = program
    .command('stream')
    .description('Make, list, read and trim streams: logs that are kept.')
    .helpCommand('help [command]', 'print help for a command')
    .addHelpText('after', EXAMPLES)
  for (const add of [addList, addCreate, addRead, addTail, addTrim]) add(stream)
}

interface JsonOptions {
  readonly json?: true
}

/** `sluice stream list` */
function addList(stream: Command): void {
  stream
    .command('list')
    .description('List the streams by name.')
    .option('--json', 'print a JSON array')
    .addHelpText('after', '\nExamples:\n  $ sluice stream list')
    .action(async ({ json }: JsonOptions, command: Command) => {
      const streams = await operating(command, (operate) => operate.streams.list())
      if (json) printJson(streams)
      else if (streams.length === 0) note('There are no streams.')
      else print(formatStreams(streams, stdoutView()))
    })
}

interface CreateOptions {
  readonly slots?: number
  readonly retain?: number
  readonly retainBytes?: number
  readonly segment?: number
  readonly keepUnread?: true
  readonly dropUnread?: true
}

/** `sluice stream create` */
function addCreate(stream: Command): void {
  stream
    .command('create')
    .description('Make a stream, or change the settings of one that is there: those that are given.')
    .argument('<stream>', 'the stream')
    .option(
      '--slots <n>',
      'among how many slots ordering keys are divided; it changes only while the stream has no events',
      parse.countTo(64),
    )
    .option('--retain <duration>', 'how long events are kept', parse.durationMs)
    .option('--retain-bytes <n>', 'how much the stream may take', parse.countTo(Number.MAX_SAFE_INTEGER))
    .option('--segment <duration>', 'after how long a segment is closed', parse.durationMs)
    .option('--keep-unread', 'keep what a group has not read (as it is at first)')
    .option('--drop-unread', 'do not')
    .addHelpText('after', '\nExamples:\n  $ sluice stream create orders --retain 30d')
    .action(async (name: string, { keepUnread, dropUnread, ...settings }: CreateOptions, command: Command) => {
      if (keepUnread && dropUnread) command.error('error: give --keep-unread or --drop-unread, but not both')
      const keep = keepUnread ? true : dropUnread ? false : undefined
      const made = await operating(command, (operate) => operate.streams.set(name, { ...settings, keepUnread: keep }))
      const there = Object.keys(settings).length > 0 || keep !== undefined ? ', and has these settings now' : ''
      print(made ? 'Made.' : `It was there already${there}.`)
    })
}

interface ReadOptions extends JsonOptions {
  readonly from: StreamPlace
  readonly to?: StreamPlace
  readonly orderingKey?: string
  readonly type?: string
  readonly limit: number
}

/** `sluice stream read` */
function addRead(stream: Command): void {
  stream
    .command('read')
    .description('Print the events of a stream in the order of their positions.')
    .argument('<stream>', 'the stream')
    .option('--from <place>', 'where to begin: start, end, a position, or a time', placeOf, 'start')
    .option('--to <place>', 'where to end (default: the end as of now)', placeOf)
    .option('--ordering-key <key>', 'only those with this ordering key')
    .option('--type <type>', 'only those of this type')
    .option('-n, --limit <n>', 'how many at most', parse.countTo(1_000_000_000), 100)
    .option('--json', 'print a JSON object per line, with the payload as it is')
    .addHelpText('after', '\nExamples:\n  $ sluice stream read orders --from 2030-01-31T09:00:00Z --type order.paid')
    .action(async (name: string, { json, ...which }: ReadOptions, command: Command) => {
      await operating(command, async (operate) => {
        for await (const event of operate.streams.read(name, which)) show(event, json)
      })
    })
}

/** `sluice stream tail` */
function addTail(stream: Command): void {
  stream
    .command('tail')
    .description('Print the events of a stream as they come, until you interrupt it.')
    .argument('<stream>', 'the stream')
    .option('--from <place>', 'where to begin: start, end, a position, or a time', placeOf, 'end')
    .option('--ordering-key <key>', 'only those with this ordering key')
    .option('--type <type>', 'only those of this type')
    .option('--json', 'print a JSON object per line, with the payload as it is')
    .addHelpText('after', '\nExamples:\n  $ sluice stream tail orders')
    .action(async (name: string, { json, ...which }: ReadOptions, command: Command) => {
      const interrupt = new AbortController()
      const stop = () => interrupt.abort()
      process.once('SIGINT', stop).once('SIGTERM', stop)
      await operating(command, async (operate) => {
        const events = operate.streams.read(name, { ...which, follow: true, signal: interrupt.signal })
        for await (const event of events) show(event, json)
      })
    })
}

interface TrimOptions {
  readonly before: StreamPlace
  readonly force?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice stream trim` */
function addTrim(stream: Command): void {
  stream
    .command('trim')
    .description('Let events before a place count as gone. Their segments are dropped later.')
    .argument('<stream>', 'the stream')
    .requiredOption('--before <place>', 'before which events are gone: end, a position, or a time', placeOf)
    .option('--force', 'also what a group has not read that keeps it')
    .option('--dry-run', 'only show what would be gone')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice stream trim orders --before 2030-01-31T09:00:00Z --dry-run')
    .action(trim)
}

async function trim(name: string, options: TrimOptions, command: Command): Promise<void> {
  const { before, force = false, dryRun, yes } = options
  await operating(command, async (operate) => {
    const { trimmedTo, events, heldBy, lostBy } = await operate.streams.trim(name, before, { force, dryRun: true })
    print(events === 0 ? 'Nothing to trim.' : `${counted(events, 'event')} to trim, up to position ${trimmedTo}`)
    if (heldBy.length > 0) note(`It stops before what these groups have not read: ${heldBy.join(', ')}`)
    if (lostBy.length > 0) note(`These groups have not read all of it, and will stand still: ${lostBy.join(', ')}`)
    if (dryRun || events === 0) return
    await assertConfirmed(`Trim the stream ${name}? Nobody can read again what is gone.`, yes ? { yes } : {})
    // What has been shown, and not what has come since.
    const done = await operate.streams.trim(name, { position: trimmedTo + 1 }, { force })
    print(`Events up to position ${done.trimmedTo} are gone.`)
  })
}

function show(event: StreamEvent, json: true | undefined): void {
  if (json) {
    printJson(event, 'line')
    return
  }
  const { position, appendedAt, type, orderingKey, payload } = event
  const words = [position, appendedAt.toISOString(), type ?? '-', orderingKey ?? '-', oneLine(JSON.stringify(payload))]
  print(words.join('  '))
}

/** `start`, `end`, `4711`, `2030-01-31T09:00:00Z` */
export function placeOf(text: string): StreamPlace {
  if (text === 'start' || text === 'end') return text
  const position = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(position)) return { position }
  try {
    return { time: parse.time(text) }
  } catch {
    throw new InvalidArgumentError('Expected start, end, a position, or a time such as 2030-01-31T09:00:00Z.')
  }
}

const EXAMPLES = `
Examples:
  $ sluice stream create orders --retain 30d
  $ sluice stream list
  $ sluice stream tail orders
  $ sluice stream read orders --from 4711 -n 10 --json`

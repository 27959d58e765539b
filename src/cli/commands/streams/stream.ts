import { type Command, InvalidArgumentError } from 'commander'
import { counted } from '../../../basics/words/sentences.ts'
import type { StreamEvent, StreamOffset } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { parse } from '../../arguments/options.ts'
import { assertConfirmed } from '../../confirm.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../../output.ts'
import { formatStreams } from '../../show/streams.ts'
import { oneLine } from '../../show/text.ts'

/** `sluice stream …` */
export function addStream(program: Command): void {
  const stream = program
    .command('stream')
    .description('Set up, list, read and trim streams: logs whose events are kept.')
    .addHelpText('after', EXAMPLES)
  addCommands(stream, [addList, addSet, addRead, addTail, addTrim])
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

interface StreamSetFlags {
  readonly partitions?: number
  readonly retain?: number | 'none'
  readonly retainBytes?: number | 'none'
  readonly segment?: number
  readonly keepUnread?: true
  readonly dropUnread?: true
}

/** `sluice stream set` */
function addSet(stream: Command): void {
  stream
    .command('set')
    .description('Make a stream, or change the given settings.')
    .argument('<stream>', 'the stream')
    .option(
      '--partitions <n>',
      'how many partitions to divide ordering keys among; fixed once the stream has events',
      parse.countTo(64),
    )
    .option('--retain <duration>', 'how long events are kept, or none: for ever', orNone(parse.durationMs))
    .option(
      '--retain-bytes <n>',
      'how many bytes the stream may take before its oldest events are dropped, or none: any number',
      orNone(parse.countTo(Number.MAX_SAFE_INTEGER)),
    )
    .option('--segment <duration>', 'how long a segment is open; events are dropped by segment', parse.durationMs)
    .option('--keep-unread', 'keep events until every group has read them (the default of a new stream)')
    .option('--drop-unread', 'drop old events even if a group has not read them')
    .addHelpText(
      'after',
      '\nExamples:\n  $ sluice stream set orders --retain 30d\n  $ sluice stream set orders --retain none',
    )
    .action(async (name: string, { keepUnread, dropUnread, ...flags }: StreamSetFlags, command: Command) => {
      if (keepUnread && dropUnread) command.error('error: give --keep-unread or --drop-unread, but not both')
      const keep = keepUnread ? true : dropUnread ? false : undefined
      const settings = {
        ...flags,
        retain: limitOf(flags.retain),
        retainBytes: limitOf(flags.retainBytes),
        keepUnread: keep,
      }
      const made = await operating(command, (operate) => operate.streams.set(name, settings))
      const there = Object.keys(flags).length > 0 || keep !== undefined ? ', and has these settings now' : ''
      print(made ? 'Made.' : `It already existed${there}.`)
    })
}

/** `none` takes a limit away. Commander would make an empty text of null. */
function orNone(parseLimit: (text: string) => number): (text: string) => number | 'none' {
  return (text) => (text === 'none' ? text : parseLimit(text))
}

function limitOf(limit: number | 'none' | undefined): number | null | undefined {
  return limit === 'none' ? null : limit
}

interface ReadFlags extends JsonOptions {
  readonly from: StreamOffset
  readonly to?: StreamOffset
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
    .option('--from <offset>', 'where to begin: start, end, a position, or a time', offsetOf, 'start')
    .option('--to <offset>', 'where to end (default: the end as of now)', offsetOf)
    .option('--ordering-key <key>', 'only events with this ordering key')
    .option('--type <type>', 'only events of this type')
    .option('-n, --limit <n>', 'how many at most', parse.countTo(1_000_000_000), 100)
    .option('--json', 'print a JSON object per line, with the payload as it is')
    .addHelpText('after', '\nExamples:\n  $ sluice stream read orders --from 2030-01-31T09:00:00Z --type order.paid')
    .action(async (name: string, { json, ...which }: ReadFlags, command: Command) => {
      await operating(command, async (operate) => {
        for await (const event of operate.streams.read(name, which)) show(event, json)
      })
    })
}

/** `sluice stream tail` */
function addTail(stream: Command): void {
  stream
    .command('tail')
    .description('Print the events of a stream as they are appended, until you interrupt it.')
    .argument('<stream>', 'the stream')
    .option('--from <offset>', 'where to begin: start, end, a position, or a time', offsetOf, 'end')
    .option('--ordering-key <key>', 'only events with this ordering key')
    .option('--type <type>', 'only events of this type')
    .option('--json', 'print a JSON object per line, with the payload as it is')
    .addHelpText('after', '\nExamples:\n  $ sluice stream tail orders')
    .action(async (name: string, { json, ...which }: ReadFlags, command: Command) => {
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
  readonly before: StreamOffset
  readonly force?: true
  readonly dryRun?: true
  readonly yes?: true
}

/** `sluice stream trim` */
function addTrim(stream: Command): void {
  stream
    .command('trim')
    .description('Remove the events before an offset. Their segments are dropped later.')
    .argument('<stream>', 'the stream')
    .requiredOption('--before <offset>', 'the first event to keep: end, a position, or a time', offsetOf)
    .option('--force', 'also remove unread events that are kept for a group')
    .option('--dry-run', 'only show what would be removed')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', '\nExamples:\n  $ sluice stream trim orders --before 2030-01-31T09:00:00Z --dry-run')
    .action(trim)
}

async function trim(name: string, options: TrimOptions, command: Command): Promise<void> {
  const { before, force = false, dryRun, yes } = options
  await operating(command, async (operate) => {
    const { trimmedTo, events, heldBy, lostBy } = await operate.streams.trim(name, before, { force, dryRun: true })
    print(events === 0 ? 'Nothing to trim.' : `${counted(events, 'event')} to trim, up to position ${trimmedTo}`)
    if (heldBy.length > 0) note(`It stops at the unread events of these groups: ${heldBy.join(', ')}`)
    if (lostBy.length > 0)
      note(`These groups have not read all of them, and will read nothing until a seek: ${lostBy.join(', ')}`)
    if (dryRun || events === 0) return
    await assertConfirmed(`Trim the stream ${name}? Trimmed events cannot be read again.`, yes ? { yes } : {})
    // Only the events that were shown, and none that came since.
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
export function offsetOf(text: string): StreamOffset {
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
  $ sluice stream set orders --retain 30d
  $ sluice stream list
  $ sluice stream tail orders
  $ sluice stream read orders --from 4711 -n 10 --json`

import type { Command } from 'commander'
import { durationWords } from '../../../basics/time/duration-words.ts'
import type { GroupPartitionStatus } from '../../../index.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, print, printJson, stdoutView } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { formatSections } from '../../show/facts.ts'
import { formatFailures } from '../../show/failures.ts'
import { formatTable, type TableColumn } from '../../show/table.ts'

/** `sluice group partitions` */
export function addGroupPartitions(group: Command): void {
  group
    .command('partitions')
    .description('Show how far a group has read each partition, and how the events failed that block some.')
    .argument('<stream>', 'the stream')
    .argument('<group>', 'the group')
    .option('--json', 'print a JSON array')
    .addHelpText('after', '\nExamples:\n  $ sluice group partitions orders billing')
    .action(async (stream: string, name: string, { json }: JsonOptions, command: Command) => {
      const found = await operating(command, async (operate) => {
        const partitions = await operate.groups.partitions(stream, name)
        if (partitions.length > 0) return partitions
        throw new CommandRefusal(`Stream "${stream}" has no group "${name}". See: sluice group list`)
      })
      if (json) printJson(found)
      else print([formatTable(COLUMNS, found, stdoutView()), ...failuresOf(found)].join('\n\n'))
    })
}

function failuresOf(partitions: readonly GroupPartitionStatus[]): readonly string[] {
  return partitions.flatMap(({ partition, nextPosition, blockedBy }) => {
    if (blockedBy === null || blockedBy.failures.length === 0) return []
    const title = `failures of event ${nextPosition} in partition ${partition}`
    return [formatSections([[title, formatFailures(blockedBy.failures)]], stdoutView())]
  })
}

const COLUMNS: readonly TableColumn<GroupPartitionStatus>[] = [
  { title: 'PARTITION', align: 'right', cell: ({ partition }) => partition },
  { title: 'POSITION', align: 'right', cell: ({ position }) => position },
  { title: 'NEXT', align: 'right', cell: ({ nextPosition }) => nextPosition },
  { title: 'UNREAD', align: 'right', cell: ({ unread }) => unread },
  {
    title: 'OLDEST UNREAD',
    align: 'right',
    cell: ({ oldestUnreadAgeMs }) => (oldestUnreadAgeMs === null ? null : durationWords(oldestUnreadAgeMs)),
  },
  { title: 'STATE', cell: stateText },
]

/** 'reads', 'retries event 7 at 2030-01-01T00:00:00.000Z, 2 attempts failed', 'stopped by event 7: no card' */
function stateText({ nextPosition, blockedBy, openPid }: GroupPartitionStatus): string {
  if (blockedBy === null) return openPid === null ? 'reads' : `reads up to an append open in process ${openPid}`
  const { until, attempt, error } = blockedBy
  if (until === null) return `stopped by event ${nextPosition}: ${error ?? 'no error'}`
  return `retries event ${nextPosition} at ${until.toISOString()}, ${attempt} failed: ${error ?? 'no error'}`
}

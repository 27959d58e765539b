import type { Command } from 'commander'
import { durationWords } from '../../../basics/time/duration-words.ts'
import type { QueueActivity } from '../../../index.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../../output.ts'
import { formatTable, type TableColumn } from '../../show/table.ts'

interface ActivityOptions extends JsonOptions {
  readonly since?: number
  readonly step?: number
}

/** `sluice queue activity` */
export function addQueueActivity(queue: Command): void {
  queue
    .command('activity')
    .description('Show what the workers have done in the last hours: rates, waiting times and handling times.')
    .argument('[queue]', 'only this queue, or stream:group', parse.queue)
    .option('--since <duration>', 'how far back, up to 2d (default: 1h)', parse.durationMs)
    .option('--step <duration>', 'how long a step is (default: 5m)', parse.durationMs)
    .option('--json', 'print a JSON array')
    .addHelpText('after', EXAMPLES)
    .action(async (name: string | undefined, { since, step = 300_000, json }: ActivityOptions, command: Command) => {
      const { now, steps } = await operating(command, async (operate) => {
        const found = await operate.queues.activity({ queue: name, since, step })
        if (found.length === 0) note(`Nothing was done in this time.${await didYouMean(operate, name)}`)
        return { now: await operate.now(), steps: found }
      })
      if (json) return printJson(steps)
      if (steps.length > 0) print(formatTable(columns(step, now), steps, stdoutView()))
      note('Workers write this once a minute: the last minute may be missing.')
    })
}

function columns(stepMs: number, now: Date): readonly TableColumn<QueueActivity>[] {
  return [
    { title: 'QUEUE', cell: ({ queue }) => queue },
    { title: 'FROM', cell: ({ at }) => at.toISOString().slice(0, 16).replace('T', ' ') },
    { title: 'ACKED', align: 'right', cell: ({ acked }) => acked },
    {
      title: '/S',
      align: 'right',
      cell: ({ at, acked }) => rate(acked, Math.min(stepMs, now.getTime() - at.getTime())),
    },
    { title: 'RETRIED', align: 'right', optional: true, cell: ({ retried }) => retried || null },
    { title: 'DEAD', align: 'right', optional: true, cell: ({ dead }) => dead || null },
    { title: 'WAITED P50', align: 'right', cell: ({ waitingP50Ms }) => age(waitingP50Ms) },
    { title: 'P99', align: 'right', cell: ({ waitingP99Ms }) => age(waitingP99Ms) },
    { title: 'TOOK P50', align: 'right', cell: ({ handlingP50Ms }) => age(handlingP50Ms) },
    { title: 'P99', align: 'right', cell: ({ handlingP99Ms }) => age(handlingP99Ms) },
    { title: 'BATCHES', align: 'right', cell: ({ batches }) => batches },
    { title: 'IN ALL', align: 'right', cell: ({ handlingTotalMs }) => durationWords(handlingTotalMs) },
  ]
}

/** Per second. The last step is not over. */
function rate(count: number, ms: number): string {
  return (count / Math.max(1, ms / 1_000)).toFixed(1)
}

function age(ms: number | null): string | null {
  return ms === null ? null : durationWords(ms)
}

const EXAMPLES = `
Examples:
  $ sluice queue activity
  $ sluice queue activity orders --since 6h --step 15m`

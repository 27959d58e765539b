import type { Command } from 'commander'
import { counted } from '../../basics/words/sentences.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, note, print, printJson } from '../output.ts'

/** `sluice maintain` */
export function addMaintain(program: Command): void {
  program
    .command('maintain')
    .description('Remove old data now: expired messages, dead letters, dedupe keys, receipts, history.')
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(maintain)
}

async function maintain({ json }: JsonOptions, command: Command): Promise<void> {
  const result = await operating(command, (operate) => operate.maintain())
  const {
    expired,
    deadLetters,
    dedupeKeys,
    receipts,
    history,
    historyDropped,
    historyPartitions,
    leftovers,
    finished,
    segmentsDropped,
  } = result
  const done = [
    [expired, 'expired message'],
    [deadLetters, 'old dead letter'],
    [dedupeKeys, 'old dedupe key'],
    [receipts, 'old receipt'],
    [history, 'completed message'],
    [historyDropped, 'day of history', 'days of history'],
    [leftovers, 'leftover row'],
    [segmentsDropped, 'segment'],
  ] as const
  if (json) printJson(result)
  else {
    const parts = done
      .filter(([count]) => count > 0)
      .map(([count, what, many]) => (many !== undefined && count > 1 ? `${count} ${many}` : counted(count, what)))
    print(parts.length === 0 ? 'Nothing was too old' : `Removed ${parts.join(', ')}`)
    if (historyPartitions > 0) print(`Made ${counted(historyPartitions, 'day')} of history ahead`)
  }
  if (!finished) note('There is more to do, or another process is doing it: run it again.')
}

const EXAMPLES = `
Worker processes do this every five minutes. Where none runs, run it from cron.

Examples:
  $ sluice maintain
  $ sluice maintain --json | jq .expired`

import type { Command } from 'commander'
import { redriveDeadLetters } from '../../table/operate.ts'
import { addDeadFilter } from '../dead-filter.ts'
import { type DeadOperationOptions, operateOnDead } from '../dead-operation.ts'

const REDRIVE = { verb: 'Redrive', done: 'Redriven', run: redriveDeadLetters }

/** `sluice dead redrive` */
export function addDeadRedrive(dead: Command): void {
  addDeadFilter(dead.command('redrive'))
    .description(
      'Put dead letters back into their queues: due now, with the same ids, their attempts counted from zero.',
    )
    .option('--all-queues', 'of all queues, instead of one')
    .option('--dry-run', 'only show what would be done')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', EXAMPLES)
    .action((queue: string | undefined, options: DeadOperationOptions, command: Command) =>
      operateOnDead(REDRIVE, queue, options, command),
    )
}

const EXAMPLES = `
Examples:
  $ sluice dead redrive orders --dry-run
  $ sluice dead redrive orders --id 42 --id 43
  $ sluice dead redrive orders --type order.paid --newer-than 2h --yes

What it will do is shown first, and asked on a terminal. Without one it changes nothing unless given --yes.`

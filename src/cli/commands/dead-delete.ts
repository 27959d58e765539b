import type { Command } from 'commander'
import { deleteDeadLetters } from '../../table/operate.ts'
import { addDeadFilter } from '../dead-filter.ts'
import { type DeadOperationOptions, operateOnDead } from '../dead-operation.ts'

const DELETE = { verb: 'Delete', done: 'Deleted', run: deleteDeadLetters }

/** `sluice dead delete` */
export function addDeadDelete(dead: Command): void {
  addDeadFilter(dead.command('delete'))
    .description('Delete dead letters for good.')
    .option('--all-queues', 'of all queues, instead of one')
    .option('--dry-run', 'only show what would be done')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', EXAMPLES)
    .action((queue: string | undefined, options: DeadOperationOptions, command: Command) =>
      operateOnDead(DELETE, queue, options, command),
    )
}

const EXAMPLES = `
Examples:
  $ sluice dead delete orders --id 42
  $ sluice dead delete orders --older-than 30d --dry-run
  $ sluice dead delete --all-queues --older-than 30d --yes

What it will do is shown first, and asked on a terminal. Without one it changes nothing unless given --yes.`

import type { Command } from 'commander'
import { addDeadDelete } from './dead-delete.ts'
import { addDeadList } from './dead-list.ts'
import { addDeadRedrive } from './dead-redrive.ts'
import { addDeadShow } from './dead-show.ts'

/** `sluice dead …` */
export function addDead(program: Command): void {
  const dead = program
    .command('dead')
    .description('List, show, redrive and delete dead letters: messages that are not tried again.')
    .helpCommand('help [command]', 'print help for a command')
    .addHelpText('after', EXAMPLES)
  for (const add of [addDeadList, addDeadShow, addDeadRedrive, addDeadDelete]) add(dead)
}

const EXAMPLES = `
Examples:
  $ sluice dead list
  $ sluice dead list orders --newer-than 1h --reason schema
  $ sluice dead show orders 42
  $ sluice dead redrive orders --type order.paid --dry-run
  $ sluice dead delete orders --older-than 30d --yes`

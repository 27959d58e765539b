import type { Command } from 'commander'
import { grantRoles } from '../../migrate/roles.ts'
import { rolesSql } from '../../migrate/sql-files.ts'
import { connected } from '../connect.ts'
import { print } from '../output.ts'

/** `sluice roles` */
export function addRoles(program: Command): void {
  program
    .command('roles')
    .description(
      `Make the roles ${NAMES}, unless they exist, and ` +
        'grant each what it needs in this database. Run it again after a migration.',
    )
    .option('--print', 'print it as plain SQL, for another tool; needs no database')
    .addHelpText('after', EXAMPLES)
    .action((options: { readonly print?: true }, command: Command) =>
      options.print ? print(rolesSql().trimEnd()) : applyRoles(command),
    )
}

async function applyRoles(command: Command): Promise<void> {
  await connected(command, grantRoles)
  print(`${NAMES} have their rights in this database`)
}

const NAMES = 'sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader and sluice_claimer'

const EXAMPLES = `
Examples:
  $ sluice roles
  $ sluice roles --print > roles/sluice.sql

Then make your logins members, for example:
  GRANT sluice_producer TO web;
  GRANT sluice_worker, sluice_producer TO worker;   -- a worker whose handlers enqueue

sluice_producer  enqueues
sluice_worker    claims, handles and settles messages, and reads the views without payloads
sluice_operator  reads all views, pauses queues, redrives, runs now, reschedules and cancels messages
sluice_admin     the same, and changes messages, clears queues, deletes dead letters, changes settings, schedules and streams
sluice_reader    reads all views
sluice_claimer   claims, settles and pops by functions, and sees no table

Run it as the owner of schema "sluice". It needs CREATEROLE if one of the roles is missing.`

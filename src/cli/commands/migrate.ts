import type { Command } from 'commander'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { durationWords } from '../../basics/time/duration-words.ts'
import { checkMigration } from '../../migrate/check.ts'
import { migrate, migrationSql } from '../../migrate/migrate.ts'
import type { SluiceEvent } from '../../telemetry/events.ts'
import { connected } from '../connect.ts'
import { type JsonOptions, note, print, printJson } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'
import { formatMigrationCheck } from '../show/migration-check.ts'

/** `sluice migrate` */
export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description(
      'Install schema "sluice", or upgrade it. Safe to run at every deployment, from any number of machines.',
    )
    .option('--check', 'say what would run, what would keep it waiting, and which versions run; change nothing')
    .option('--json', 'with --check: print it as JSON')
    .option('--print', 'print the migrations as plain SQL, for another tool; needs no database')
    .addHelpText('after', EXAMPLES)
    .action((options: MigrateOptions, command: Command) => {
      if (options.print) return printMigrations()
      return options.check ? checkMigrations(options, command) : runMigrations(command)
    })
}

interface MigrateOptions extends JsonOptions {
  readonly check?: true
  readonly print?: true
}

/** Exits with 1 if a deployment is to wait. */
async function checkMigrations({ json }: MigrateOptions, command: Command): Promise<void> {
  const found = await connected(command, checkMigration)
  if (json) printJson(found)
  else print(formatMigrationCheck(found))
  if (!found.ready) throw new CommandRefusal('a migration would fail or wait: this is not the time to deploy')
}

function printMigrations(): void {
  print(
    migrationSql()
      .map(({ name, sql }) => `-- ${name}\n${sql}`)
      .join('\n'),
  )
}

async function runMigrations(command: Command): Promise<void> {
  const { applied, version } = await connected(command, (config) => migrate(config, noteDelay))
  for (const name of applied) print(`Applied ${name}`)
  print(
    applied.length === 0 ? `Nothing to do: the schema has version ${version}` : `The schema has version ${version} now`,
  )
}

function noteDelay(event: SluiceEvent): void {
  if (event.kind !== 'migration.delayed') return
  const { attempt, attempts, error, retryInMs } = event
  const reason = wordsOf(error.cause)
  note(
    `Attempt ${attempt} of ${attempts} was rolled back: ${reason}. The next one begins in ${durationWords(retryInMs)}`,
  )
}

const EXAMPLES = `
Examples:
  $ sluice migrate
  $ sluice migrate --database-url postgres://owner@db.example/app
  $ sluice migrate --check
  $ sluice migrate --print > migrations/2026_01_01_sluice.sql`

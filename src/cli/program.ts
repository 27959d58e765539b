import { Command, Option } from 'commander'
import { VERSION } from '../basics/version.ts'
import { addAudit } from './commands/audit.ts'
import { addDashboard } from './commands/dashboard.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEndpoint } from './commands/endpoint.ts'
import { addExplain } from './commands/explain.ts'
import { addMaintain } from './commands/maintain.ts'
import { addClaims } from './commands/messages/claims.ts'
import { addDead } from './commands/messages/dead.ts'
import { addEnqueue } from './commands/messages/enqueue.ts'
import { addHistory } from './commands/messages/history.ts'
import { addMessage } from './commands/messages/message.ts'
import { addPeek } from './commands/messages/peek.ts'
import { addMetrics } from './commands/metrics.ts'
import { addMigrate } from './commands/migrate.ts'
import { addClear } from './commands/queues/clear.ts'
import { addQueue } from './commands/queues/queue.ts'
import { addRoles } from './commands/roles.ts'
import { addSchedule } from './commands/schedule.ts'
import { addStatus } from './commands/status.ts'
import { addGroup } from './commands/streams/group.ts'
import { addStream } from './commands/streams/stream.ts'
import { addWork } from './commands/work.ts'
import { maskSecrets } from './mask-secrets.ts'
import { printable } from './show/text.ts'
import { answerUnknownCommands, hintOf } from './unknown-command.ts'

/** The command line: every command with its options and help. Commands run when it parses arguments. */
export function createProgram(): Command {
  const program = new Command('sluice')
    .description('Look into and operate the message queue in your PostgreSQL.')
    .version(VERSION, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand(false)
    .option('--database-url <url>', 'connection string (default: the environment variable DATABASE_URL)')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeErr: (text) => void process.stderr.write(printable(maskSecrets(text))) })
    .showHelpAfterError('Add --help to see how it is used.')
    .exitOverride()
    .addHelpText('after', HELP)
  for (const add of COMMANDS) add(program)
  acceptYes(program)
  answerUnknownCommands(program)
  return program
}

const COMMANDS = [
  addMigrate,
  addRoles,
  addStatus,
  addDoctor,
  addExplain,
  addEnqueue,
  addPeek,
  addMessage,
  addQueue,
  addClear,
  addClaims,
  addDead,
  addSchedule,
  addEndpoint,
  addStream,
  addGroup,
  addHistory,
  addAudit,
  addMaintain,
  addMetrics,
  addWork,
  addDashboard,
  addHelp,
] as const

/** So that a script may give it to every command: most ask nothing, and which do is no part of what they are called for. */
function acceptYes(to: Command): void {
  for (const command of to.commands) acceptYes(command)
  if (to.commands.length > 0 || to.options.some(({ long }) => long === '--yes')) return
  to.addOption(new Option('-y, --yes', 'ignored: this command asks nothing').hideHelp())
}

/** `sluice help dead redrive`: commander's own help command takes only one word. */
function addHelp(program: Command): void {
  program
    .command('help')
    .argument('[command...]')
    .description('print help for a command')
    .addHelpText('after', '\nExamples:\n  $ sluice help dead redrive\n\nOptions of the database: --database-url')
    .action((names: readonly string[], _: unknown, help: Command) => {
      let found = program
      for (const name of names) {
        const next = found.commands.find((command) => command.name() === name)
        if (next === undefined) {
          const hint = hintOf(name, found)
          return help.error(`error: unknown command '${names.join(' ')}'${hint === undefined ? '' : `\n${hint}`}`)
        }
        found = next
      }
      return found.help()
    })
}

const HELP = `
Examples:
  $ export DATABASE_URL=postgres://app@db.example/app
  $ sluice migrate                  install or upgrade the schema
  $ sluice roles                    make roles with few rights
  $ sluice status                   the queues, the workers, and what needs attention
  $ sluice doctor                   what is wrong with this installation, and what helps
  $ sluice enqueue orders '{"n": 1}' enqueue a message, to try things out
  $ sluice explain orders 42        why a message is not running
  $ sluice peek orders              the next messages of a queue
  $ sluice queue pause orders       stop taking messages from a queue
  $ sluice message status orders 42 the state of one message
  $ sluice claims list              claims, and when they end
  $ sluice dead list                messages that are not tried again
  $ sluice dead redrive orders      try them again
  $ sluice history list orders      messages that have succeeded
  $ sluice audit list               who did what, and when
  $ sluice schedule list            messages that are enqueued at given times
  $ sluice stream tail orders       the events of a stream as they are appended
  $ sluice group list               the groups of streams, and how far behind they are
  $ sluice work ./handlers.ts       run handlers for the messages of queues
  $ sluice dashboard                a page in the browser, for this machine

Passwords are best given in DATABASE_URL or a .pgpass file: others on the machine can see a command's options.

Exit codes:
  0  done
  1  failed: the database refused or cannot be reached, something named does not exist, you said no, or the doctor found an error
  2  used wrongly: an unknown command or option, an invalid value, no connection string
  3  sluice work was ended by a signal, and gave back messages that did not end in time`

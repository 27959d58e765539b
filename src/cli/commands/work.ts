import { type Command, InvalidArgumentError, Option } from 'commander'
import { startTimer } from '../../basics/time/start-timer.ts'
import { parse } from '../arguments/options.ts'
import type { HealthAddress } from '../work/health.ts'
import { work } from '../work/work.ts'
import type { WorkOptions } from '../work/work-run.ts'

/** `sluice work` */
export function addWork(program: Command): void {
  program
    .command('work')
    .argument('<module>', 'a module of handlers, JavaScript or TypeScript')
    .description('Run handlers for the messages of queues, until a signal.')
    .option('-q, --queue <name...>', 'only these queues; required for a module that exports one function', parse.queues)
    .option(
      '-c, --concurrency <n>',
      'how many batches of each queue may be in flight; in leased mode, how many messages',
      parse.countTo(10_000),
    )
    .option('-b, --batch-size <n>', 'how many messages one claim takes at most', parse.countTo(1_000))
    .addOption(
      new Option('-m, --mode <mode>', 'the mode of handlers without their own').choices(['transactional', 'leased']),
    )
    .option('--name <name>', "the worker's name in sluice.workers (default: host:pid)")
    .option('--once', 'handle due messages, and exit when there are none')
    .addOption(
      new Option('--drain-timeout <duration>', 'how long handlers may run after a signal')
        .argParser(parse.durationMs)
        .default(30_000, '30s'),
    )
    .option('--health <[host:]port>', 'answer GET /livez, /readyz and /metrics', healthAddress)
    .addHelpText('after', EXAMPLES)
    .action(async (module: string, options: WorkOptions, command: Command) => {
      try {
        process.exitCode = await work(module, options, command)
      } finally {
        // What a module has opened, such as a pool of connections, would keep the process alive.
        startTimer(() => process.exit(), LEFT_MS).unref()
      }
    })
}

function healthAddress(text: string): HealthAddress {
  const [, host, port] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? []
  if (port !== undefined && Number(port) <= 65_535)
    return { host: host?.replace(/^\[(.*)\]$/, '$1'), port: Number(port) }
  throw new InvalidArgumentError('Expected a port, or a host and a port as in 127.0.0.1:8080.')
}

const LEFT_MS = 1_000

const EXAMPLES = `
Examples:
  $ sluice work ./handlers.ts
  $ sluice work ./send.js --queue emails --concurrency 8 --mode leased
  $ sluice work ./handlers.ts --once
  $ sluice work ./handlers.ts --health 8080 --drain-timeout 1m

The module's default export is what defineWorker() returns, an object with a handler for each queue, or one handler:

  import { defineWorker } from 'sluice'
  export default defineWorker({
    emails: async ({ payload }) => send(payload),
    reports: { mode: 'leased', concurrency: 50, handle: async ({ payload }) => render(payload) },
  })

SIGTERM and SIGINT: it stops claiming and lets handlers end. A second signal gives back the messages in flight, a third kills.

Exit codes:
  0  ended by a signal after all handlers ended or before the module had loaded, or with --once when nothing was due
  1  failed: the module cannot be loaded, the database refused, or a pipeline has stopped after an error
  2  used wrongly
  3  ended by a signal, and handlers did not end in time or a second signal came: their messages were given back`

import type { Command } from 'commander'
import type { Execute } from '../../table/statement.ts'
import { withDatabase } from '../connect.ts'
import { formatStatus } from '../format-status.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { parse } from '../options.ts'
import { note, print, printJson } from '../output.ts'
import { readStatus, type Status } from '../status.ts'
import { didYouMean } from '../unknown-queue.ts'
import { stdoutView } from '../view.ts'
import { watch } from '../watch.ts'

interface StatusOptions {
  readonly queue?: string
  readonly watch?: true
  readonly json?: true
}

const EVERY_MS = 2_000

/** `sluice status` */
export function addStatus(program: Command): void {
  program
    .command('status')
    .description('Show what waits, runs and fails in each queue, the workers, and what needs attention.')
    .option('-q, --queue <name>', 'only this queue and its workers', parse.queue)
    .option('-w, --watch', 'show it again every 2 seconds, or less often where counting takes long, until Ctrl-C')
    .option('--json', 'print one JSON object; with --watch one per line')
    .addHelpText('after', EXAMPLES)
    .action(showStatus)
}

async function showStatus(options: StatusOptions, command: Command): Promise<void> {
  await withDatabase(command, async (execute) => {
    const read = () => readStatus(execute, options.queue ?? null)
    if (options.watch) await watchStatus(read, options)
    else await showOnce(execute, read, options)
  })
}

async function showOnce(execute: Execute, read: () => Promise<Status>, options: StatusOptions): Promise<void> {
  const status = await read()
  if (options.json) printJson(status)
  else print(formatStatus(status, stdoutView()))
  const hint = status.queues.length === 0 ? await didYouMean(execute, options.queue) : ''
  if (hint !== '') note(hint.trim())
}

async function watchStatus(read: () => Promise<Status>, options: StatusOptions): Promise<void> {
  if (options.json) return watch(read, (status) => printJson(status, 'line'), EVERY_MS)
  if (!process.stdout.isTTY) return watch(read, (status) => print(`${frame(status)}\n`), EVERY_MS)
  const { default: logUpdate } = await import('log-update')
  try {
    await watch(read, (status) => logUpdate(maskSecrets(frame(status))), EVERY_MS)
  } finally {
    logUpdate.done()
  }
}

function frame(status: Status): string {
  const view = stdoutView()
  return `${view.paint('dim', status.at)}\n\n${formatStatus(status, view)}`
}

const EXAMPLES = `
Examples:
  $ sluice status
  $ sluice status --watch
  $ sluice status --queue orders
  $ sluice status --json | jq '.queues[] | select(.dead > 0)'

READY      due, and in nobody's hands
SCHEDULED  due later, never tried
RETRYING   failed, and due later
IN FLIGHT  in the hands of live workers
DEAD       in the dead letters: not tried again unless redriven`

import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Operate, Status } from '../../index.ts'
import { didYouMean } from '../arguments/known-queue.ts'
import { parse } from '../arguments/options.ts'
import { operating } from '../connect.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../output.ts'
import { formatStatus } from '../show/status.ts'

interface StatusOptions extends JsonOptions {
  readonly queue?: string
  readonly watch?: true
}

const EVERY_MS = 2_000

/** `sluice status` */
export function addStatus(program: Command): void {
  program
    .command('status')
    .description('Show the queues with their counts, the workers, and what needs attention.')
    .option('-q, --queue <name>', 'only this queue and its workers', parse.queue)
    .option('-w, --watch', 'show it again every 2 seconds, or less often if counting takes long, until Ctrl-C')
    .option('--json', 'print one JSON object; with --watch one per line')
    .addHelpText('after', EXAMPLES)
    .action(showStatus)
}

async function showStatus(options: StatusOptions, command: Command): Promise<void> {
  await operating(command, async (operate) => {
    const read = () => operate.status({ queue: options.queue })
    if (options.watch) await watchStatus(read, options)
    else await showOnce(operate, read, options)
  })
}

async function showOnce(operate: Operate, read: () => Promise<Status>, options: StatusOptions): Promise<void> {
  const status = await read()
  if (options.json) printJson(status)
  else print(formatStatus(status, stdoutView()))
  const hint = status.queues.length === 0 ? await didYouMean(operate, options.queue) : ''
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
  return `${view.paint('dim', status.at.toISOString())}\n\n${formatStatus(status, view)}`
}

/**
 * Shows what `read` returns, again and again, until the process is interrupted. The pause is `everyMs`, or ten times as
 * long as the reading took, so that the counting of a large table keeps a server busy for a tenth of the time at most.
 */
async function watch<T>(read: () => Promise<T>, show: (value: T) => void, everyMs: number): Promise<void> {
  const interrupt = new AbortController()
  const { signal } = interrupt
  const stop = () => interrupt.abort()
  const stopped = once(signal, 'abort')
  process.on('SIGINT', stop).on('SIGTERM', stop)
  try {
    while (!signal.aborted) {
      const startedMs = performance.now()
      const value = await Promise.race([read(), stopped.then(() => undefined)])
      const tookMs = performance.now() - startedMs
      if (value === undefined || signal.aborted) return
      show(value)
      await pause(pauseAfter(tookMs, everyMs), undefined, { signal }).catch(() => undefined)
    }
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

export function pauseAfter(tookMs: number, everyMs: number): number {
  return Math.max(everyMs, tookMs * 10)
}

const EXAMPLES = `
Examples:
  $ sluice status
  $ sluice status --watch
  $ sluice status --queue orders
  $ sluice status --json | jq '.queues[] | select(.dead > 0)'

READY      due, and not in flight
SCHEDULED  due later, never tried
RETRYING   failed, and due later
IN FLIGHT  in a batch of a live worker, leased, or claimed
DEAD       in the dead letters: not tried again unless redriven`

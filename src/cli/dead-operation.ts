import type { Command } from 'commander'
import { type DeadLetterFilter, listDeadLetters, summariseDeadLetters } from '../table/dead-letters.ts'
import type { Execute } from '../table/statement.ts'
import { confirm } from './confirm.ts'
import { withDatabase } from './connect.ts'
import { type DeadFilterOptions, readDeadFilter } from './dead-filter.ts'
import { deadLetters, formatPlan } from './format-dead-letters.ts'
import { note, print } from './output.ts'
import { Refusal } from './refusal.ts'
import { didYouMean } from './unknown-queue.ts'
import { stdoutView } from './view.ts'

/** Something done to all dead letters that match. */
export interface DeadOperation {
  /** 'Redrive' */
  readonly verb: string
  /** 'Redriven' */
  readonly done: string
  readonly run: (execute: Execute, filter: DeadLetterFilter) => Promise<number>
}

export interface DeadOperationOptions extends DeadFilterOptions {
  readonly allQueues?: true
  readonly dryRun?: true
  readonly yes?: true
}

const EXAMPLES_SHOWN = 3

/** Shows what the operation will do, asks, and does it. */
export async function operateOnDead(
  operation: DeadOperation,
  queue: string | undefined,
  options: DeadOperationOptions,
  command: Command,
): Promise<void> {
  if ((queue === undefined) === (options.allQueues === undefined)) {
    command.error('error: name a queue, or give --all-queues')
  }
  await withDatabase(command, async (execute) => {
    const filter = await readDeadFilter(execute, queue, options)
    const total = await showPlan(execute, operation, filter)
    if (options.dryRun) note('Nothing has changed: this is a dry run.')
    if (total === 0 || options.dryRun) return
    await assertConfirmed(`${operation.verb} ${deadLetters(total)}?`, options)
    print(`${operation.done} ${deadLetters(await operation.run(execute, filter))}.`)
  })
}

async function showPlan(execute: Execute, { verb }: DeadOperation, filter: DeadLetterFilter): Promise<number> {
  const [summary, examples] = await Promise.all([
    summariseDeadLetters(execute, filter),
    listDeadLetters(execute, filter, { limit: EXAMPLES_SHOWN }),
  ])
  if (summary.total === 0) print(`No dead letters match.${await didYouMean(execute, filter.queue ?? undefined)}`)
  else print(`${verb} ${deadLetters(summary.total)}:\n\n${formatPlan(summary, examples, stdoutView())}\n`)
  return summary.total
}

async function assertConfirmed(question: string, options: DeadOperationOptions): Promise<void> {
  if (options.yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new Refusal('Nothing has changed: without a terminal to ask on, give --yes to go ahead')
  }
  if (!(await confirm(question, process.stdin, process.stderr))) throw new Refusal('Nothing has changed.')
}

import type { Command } from 'commander'
import type { DeadLetterFilter } from '../table/dead-letters.ts'
import { readClockUs } from '../table/inspect.ts'
import type { Execute } from '../table/statement.ts'
import { parse } from './options.ts'

/** The options that choose dead letters. */
export interface DeadFilterOptions {
  readonly type?: string
  readonly id?: readonly string[]
  /** Milliseconds. */
  readonly olderThan?: number
  readonly newerThan?: number
}

/** Adds the options of {@link DeadFilterOptions} to a command. */
export function addDeadFilter(command: Command): Command {
  return command
    .argument('[queue]', 'the queue', parse.queue)
    .option('-t, --type <type>', 'only messages of this type')
    .option('--id <id>', 'only this message; may be repeated', parse.ids)
    .option('--older-than <duration>', 'only those that died longer ago than this (30s, 5m, 2h, 7d)', parse.durationMs)
    .option('--newer-than <duration>', 'only those that died more recently than this', parse.durationMs)
}

/**
 * The filter that queue and options stand for as of now, by the database's clock. It never matches what dies later: a
 * filter that was shown and confirmed does what was shown.
 */
export async function readDeadFilter(
  execute: Execute,
  queue: string | undefined,
  options: DeadFilterOptions,
): Promise<DeadLetterFilter> {
  const nowUs = await readClockUs(execute)
  const ago = (ms: number) => Math.round(nowUs - ms * 1000)
  return {
    queue: queue ?? null,
    ids: options.id ?? null,
    type: options.type ?? null,
    diedBeforeUs: ago(options.olderThan ?? 0),
    diedAfterUs: options.newerThan === undefined ? null : ago(options.newerThan),
  }
}

import type { Command } from 'commander'
import { type Given, given } from '../../basics/given.ts'
import type { DeadLetterFilter, Operate } from '../../index.ts'
import { parse } from './options.ts'
import { messageId } from './which-message.ts'

/** The options that choose dead letters. */
export interface DeadFilterOptions {
  readonly type?: string
  readonly tenant?: string
  readonly id?: readonly string[]
  /** Milliseconds. */
  readonly olderThan?: number
  readonly newerThan?: number
  readonly reason?: string
  readonly error?: string
}

/** Adds the options of {@link DeadFilterOptions} to a command. */
export function addDeadFilter(command: Command): Command {
  return command
    .argument('[queue]', 'the queue', parse.queue)
    .option('-t, --type <type>', 'only messages of this type')
    .option('--tenant <tenant>', 'only messages of this tenant')
    .option('--id <id>', 'only this message, or event, such as orders/7, of a group; may be repeated', parse.ids)
    .option('--older-than <duration>', 'only those that died longer ago than this (30s, 5m, 2h, 7d)', parse.durationMs)
    .option('--newer-than <duration>', 'only those that died more recently than this', parse.durationMs)
    .option('-r, --reason <text>', 'only those whose reason contains this string')
    .option('-e, --error <text>', 'only those whose error contains this string')
}

/**
 * The filter of the options, as of now by the database's clock. It never matches messages that die later, so an
 * operation changes only what was shown and confirmed.
 */
export async function readDeadFilter(
  operate: Operate,
  queue: string | undefined,
  options: DeadFilterOptions,
): Promise<Given<DeadLetterFilter>> {
  const nowMs = (await operate.now()).getTime()
  const { id: names, newerThan } = options
  const ids = names && (await Promise.all(names.map((name) => messageId(operate, queue, name))))
  return given({
    queue,
    ids,
    type: options.type,
    tenant: options.tenant,
    reason: options.reason,
    error: options.error,
    diedBefore: new Date(nowMs - (options.olderThan ?? 0)),
    diedAfter: newerThan === undefined ? undefined : new Date(nowMs - newerThan),
  })
}

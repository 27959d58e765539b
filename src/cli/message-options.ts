import type { Command } from 'commander'
import type { EnqueueOptions } from '../index.ts'
import { parse } from './options.ts'

/** What {@link messageOptions} reads. */
export type MessageOptions = Omit<EnqueueOptions, 'dueAt' | 'dedupe'>

/** Adds what a message can be given beside its payload. What is not given is not there, so the library's defaults hold. */
export function messageOptions(command: Command): Command {
  return command
    .option('--type <type>', 'the type, such as order.paid')
    .option(
      '--schema-version <version>',
      "the version of the payload's schema (default: 1)",
      parse.countTo(2_147_483_647),
    )
    .option('--headers <json>', 'metadata that travels along: an object', parse.json)
    .option('--ordering-key <key>', 'messages with the same key are handled one at a time, in order')
    .option('--tenant <tenant>', 'the tenant')
    .option('--priority <number>', 'from 0 (first) to 9', parse.priority)
    .option('--delay <duration>', 'due this long after the enqueue', parse.durationMs)
    .option('--ttl <duration>', 'for how long it may be delivered once it is due', parse.durationMs)
    .option('--max-attempts <count>', 'after how many failed attempts it dies', parse.countTo(1_000_000))
    .option('--retry-policy <name>', 'the name of the retry policy')
    .option('--lease <duration>', 'the lease in leased mode, 1s to 24h', parse.durationMs)
}

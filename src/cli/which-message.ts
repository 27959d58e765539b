import type { Command } from 'commander'
import type { WhichMessage } from '../index.ts'
import { parse } from './options.ts'

/** Adds the arguments and the option that name one message of a queue. */
export function oneMessage(command: Command): Command {
  return command
    .argument('<queue>', 'the queue', parse.queue)
    .argument('[id]', 'the number of the message', parse.id)
    .option('-k, --dedupe-key <key>', 'instead of a number: the dedupe key')
}

/** Ends the command unless one of the two is given. */
export function whichMessage(
  id: string | undefined,
  dedupeKey: string | undefined,
  command: Command,
): Exclude<WhichMessage, string> {
  if (id !== undefined && dedupeKey === undefined) return { id }
  if (id === undefined && dedupeKey !== undefined) return { dedupeKey }
  const received = id === undefined ? 'neither' : 'both'
  return command.error(`error: expected the number of a message or --dedupe-key, received ${received}`)
}

/** A message in words: where it is, and where there is none. */
export function namesOf(which: Exclude<WhichMessage, string>): { readonly one: string; readonly none: string } {
  if ('id' in which) return { one: `Message ${which.id}`, none: `message ${which.id}` }
  const key = `dedupe key ${JSON.stringify(which.dedupeKey)}`
  return { one: `The message with the ${key}`, none: `message with the ${key}` }
}

import type { Command } from 'commander'
import type { Operate, WhichMessage } from '../../index.ts'
import { CommandRefusal } from '../report-error.ts'
import { parse } from './options.ts'

/** What an argument or option that names a message says of it. */
export const MESSAGE_ID = 'the id of the message; in the queue of a group also its event, as in orders/7'

/** Adds the arguments and the option that name one message of a queue. */
export function oneMessage(command: Command): Command {
  return command
    .argument('<queue>', 'the queue', parse.queue)
    .argument('[id]', MESSAGE_ID, parse.id)
    .option('-k, --dedupe-key <key>', 'the dedupe key, instead of the id')
}

/** One message of a queue, named by an argument or by --dedupe-key. */
export type NamedMessage = Exclude<WhichMessage, string>

/** Ends the command unless one of the two is given. */
export function whichMessage(id: string | undefined, dedupeKey: string | undefined, command: Command): NamedMessage {
  if (id !== undefined && dedupeKey === undefined) return { id }
  if (id === undefined && dedupeKey !== undefined) return { dedupeKey }
  const received = id === undefined ? 'neither' : 'both'
  return command.error(`error: expected the id of a message or --dedupe-key, received ${received}`)
}

/** The same, with the id of an event's message. @throws CommandRefusal */
export async function eventResolved(operate: Operate, queue: string, named: NamedMessage): Promise<NamedMessage> {
  return 'id' in named ? { id: await messageId(operate, queue, named.id) } : named
}

/** The id of a message that is named by its id, or by its event. @throws CommandRefusal */
export async function messageId(operate: Operate, queue: string | undefined, name: string): Promise<string> {
  const [stream = '', position] = name.split('/')
  if (position === undefined) return name
  const group = queue?.startsWith(`${stream}:`) ? queue.slice(stream.length + 1) : undefined
  if (group === undefined)
    throw new CommandRefusal(`${name} is an event: name the queue of its group, as in ${stream}:billing.`)
  const id = await operate.groups.messageOf(stream, group, Number(position))
  if (id !== undefined) return id
  throw new CommandRefusal(
    `Event ${name} is no message of queue "${queue}": it is handled, not read yet, or blocks its partition.`,
  )
}

/** Words for a message that is there, and for one that is not. */
export function namesOf(which: NamedMessage): { readonly one: string; readonly none: string } {
  if ('id' in which) return { one: `Message ${which.id}`, none: `message ${which.id}` }
  const key = `dedupe key ${JSON.stringify(which.dedupeKey)}`
  return { one: `The message with the ${key}`, none: `message with the ${key}` }
}

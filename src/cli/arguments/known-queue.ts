import { nearest } from '../../basics/words/nearest.ts'
import { isSluiceError } from '../../errors.ts'
import type { Operate } from '../../index.ts'
import { assertConfirmed } from '../confirm.ts'
import { note } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'

/**
 * Lets a change of a queue that does not exist pass only if it is confirmed: the name may be misspelt, or the queue may come
 * later.
 *
 * @param what is to be done: 'Pause it'
 * @throws CommandRefusal
 */
export async function assertKnownOrConfirmed(
  operate: Operate,
  queue: string,
  what: string,
  options: { readonly yes?: true },
): Promise<void> {
  const hint = await whyUnknown(operate, queue)
  if (hint === '') return
  note(hint)
  await assertConfirmed(`${what} all the same?`, options)
}

/** For a command that has nothing to do for a queue that does not exist. @throws CommandRefusal */
export async function assertKnown(operate: Operate, queue: string): Promise<void> {
  const hint = await whyUnknown(operate, queue)
  if (hint !== '') throw new CommandRefusal(hint)
}

/** Notes on stderr that a queue does not exist, before a command goes on. */
export async function noteUnknown(operate: Operate, queue: string): Promise<void> {
  const hint = await whyUnknown(operate, queue)
  if (hint !== '') note(hint)
}

/** With a space before it, to follow a sentence; empty if the queue exists, or if none is given. */
export async function didYouMean(operate: Operate, queue: string | undefined): Promise<string> {
  const hint = queue === undefined ? '' : await whyUnknown(operate, queue)
  return hint === '' ? '' : ` ${hint}`
}

/**
 * That no queue has this name, and which one may have been meant. Empty if the queue exists: it has messages, dead letters,
 * workers or settings, or is of a group. Also if the login may not read all views.
 */
async function whyUnknown(operate: Operate, queue: string): Promise<string> {
  const others = await orUnseen(namesBut(operate, queue))
  if (others === undefined) return ''
  const groups = await orUnseen(operate.groups.list())
  const ofStream = groups?.filter(({ stream }) => stream === queue).map((group) => group.queue)
  if (ofStream?.length) return `"${queue}" is a stream. Its groups have the queues ${ofStream.slice(0, 5).join(', ')}.`
  const [meant] = nearest(queue, others)
  return meant === undefined ? 'No queue has this name.' : `No queue has this name. Did you mean "${meant}"?`
}

/** Undefined if the login may not see it. */
function orUnseen<T>(read: Promise<T>): Promise<T | undefined> {
  return read.catch((error: unknown) => {
    if (!isSluiceError(error, 'PRIVILEGE_MISSING')) throw error
    return undefined
  })
}

/** The names of the other queues; undefined if the queue is there. */
async function namesBut(operate: Operate, queue: string): Promise<ReadonlySet<string> | undefined> {
  if ((await operate.queues.settings.get(queue)) !== undefined) return undefined
  // The queue of a group has no messages before one of its events has failed.
  const groups = queue.includes(':') ? await operate.groups.list() : []
  const settings = await operate.queues.settings.list()
  const all = [
    ...(await operate.queues.names()),
    ...groups.map((group) => group.queue),
    ...settings.map((one) => one.queue),
  ]
  return all.includes(queue) ? undefined : new Set(all)
}

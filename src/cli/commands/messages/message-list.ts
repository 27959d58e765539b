import type { Command } from 'commander'
import type { MessageState } from '../../../index.ts'
import { QUEUED_STATES } from '../../../message.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView, withContent } from '../../output.ts'
import { COLUMNS_HELP, formatMessages } from '../../show/messages.ts'

interface MessageListOptions extends JsonOptions {
  readonly state?: Exclude<MessageState, 'dead'>
  readonly type?: string
  readonly orderingKey?: string
  readonly tenant?: string
  readonly held?: true
  readonly oldest?: true
  readonly after?: string
  readonly limit: number
}

/** `sluice message list` */
export function addMessageList(message: Command): void {
  message
    .command('list')
    .description('List the messages of a queue, the newest first: those that wait and those in flight.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('-s, --state <state>', `only messages in this state: ${QUEUED_STATES.join(', ')}`, parse.queuedState)
    .option('-t, --type <type>', 'only messages of this type')
    .option('-k, --ordering-key <key>', 'only messages with this ordering key')
    .option('--tenant <tenant>', 'only messages of this tenant')
    .option('--held', 'only messages that wait for an earlier one of their ordering key')
    .option('--oldest', 'the oldest first')
    .option('--after <id>', 'go on after this message', parse.messageId)
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array, with everything about each message')
    .addHelpText('after', EXAMPLES)
    .action(list)
}

async function list(queue: string, options: MessageListOptions, command: Command): Promise<void> {
  const { json, oldest, after, ...filter } = options
  const order = oldest ? 'oldest' : 'newest'
  const { messages, next } = await operating(command, async (operate) => {
    const page = await operate.messages.list({ queue, ...filter, order, after: after ?? null })
    if (page.messages.length === 0 && page.next === null) note(`No messages match.${await didYouMean(operate, queue)}`)
    return page
  })
  if (json) printJson(messages.map(withContent))
  else if (messages.length > 0) print(formatMessages(messages, stdoutView()))
  if (next === null) return
  // With a filter a page can end before it is full.
  const found = messages.length < filter.limit ? 'Of the 10,000 that were looked at no others match. ' : ''
  note(`${found}There are more: --after ${next}`)
}

const EXAMPLES = `
Examples:
  $ sluice message list orders
  $ sluice message list orders --state in_flight
  $ sluice message list orders --ordering-key customer-7 --oldest
${COLUMNS_HELP}`

import type { Command } from 'commander'
import type { KnownMessage, MessageStatus, Operate } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { eventResolved, namesOf, oneMessage, whichMessage } from '../../arguments/which-message.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, print, printJson, stdoutView } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { type Fact, formatFacts, formatSections } from '../../show/facts.ts'
import { formatFailures } from '../../show/failures.ts'
import { printable } from '../../show/text.ts'
import { addMessageChanges } from './message-change.ts'
import { addMessageList } from './message-list.ts'

/** `sluice message …` */
export function addMessage(program: Command): void {
  const message = program
    .command('message')
    .description('List the messages of a queue; show, cancel, change and reschedule one.')
    .addHelpText('after', EXAMPLES)
  addCommands(message, [addMessageList, addMessageStatus, addMessageChanges])
}

interface MessageStatusOptions extends JsonOptions {
  readonly dedupeKey?: string
}

/** `sluice message status` */
function addMessageStatus(message: Command): void {
  oneMessage(message.command('status'))
    .description('Show the state of one message, even after it has gone.')
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(showStatus)
}

async function showStatus(
  queue: string,
  id: string | undefined,
  { dedupeKey, json }: MessageStatusOptions,
  command: Command,
): Promise<void> {
  const named = whichMessage(id, dedupeKey, command)
  const [known, waiting] = await operating(command, async (operate) => {
    const which = await eventResolved(operate, queue, named)
    const found = await operate.messages.status(queue, which)
    if (json) return [found]
    if (found.state !== 'unknown' || found.takenUntil !== null)
      return [found, await failedMessage(operate, queue, found)]
    throw new CommandRefusal(`Queue "${queue}" knows of no ${namesOf(which).none}.${await didYouMean(operate, queue)}`)
  })
  if (json) printJson(known)
  else print([formatKnown(queue, known), ...errorsOf(waiting)].join('\n\n'))
}

/** A message that has failed and is not dead. */
async function failedMessage(operate: Operate, queue: string, { id, attempt, state }: KnownMessage) {
  return id === null || !attempt || state === 'dead' ? undefined : operate.messages.get(queue, id)
}

function errorsOf(message: MessageStatus | undefined): readonly string[] {
  if (message === undefined || message.lastError === null) return []
  const failures = message.failures.length === 0 ? [] : [['failures', formatFailures(message.failures)] as const]
  return [formatSections([['last error', printable(message.lastError)], ...failures], stdoutView())]
}

function formatKnown(queue: string, known: KnownMessage): string {
  const facts: readonly Fact[] = [
    ['queue', queue],
    ['id', known.id],
    ['state', known.state],
    ['failed attempts', known.attempt === null ? null : String(known.attempt)],
    ['see', known.state === 'dead' ? `sluice dead get ${queue} ${known.id}` : null],
    [
      known.state === 'in_flight' && known.lockedBy === null ? 'leased until' : 'due',
      known.dueAt?.toISOString() ?? null,
    ],
    ['locked by', known.lockedBy === null ? null : `process ${known.lockedBy} of the server`],
    ['after it comes', known.requeuedId],
    ['key taken until', known.takenUntil?.toISOString() ?? null],
  ]
  return formatFacts(
    facts.filter(([, value]) => value !== null),
    stdoutView(),
  )
}

const EXAMPLES = `
Examples:
  $ sluice message status orders 42
  $ sluice message status orders --dedupe-key 'invoice 17' --json | jq -r .state
  $ sluice message status orders:billing orders/7`

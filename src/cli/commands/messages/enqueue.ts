import { type Command, InvalidArgumentError } from 'commander'
import type { EnqueueResult } from '../../../index.ts'
import { type Dedupe, ON_DUPLICATE, type OnDuplicate } from '../../../message-options.ts'
import { noteUnknown } from '../../arguments/known-queue.ts'
import { type MessageOptions, messageOptions } from '../../arguments/message-options.ts'
import { parse } from '../../arguments/options.ts'
import { withSluice } from '../../connect.ts'
import { type JsonOptions, print, printJson } from '../../output.ts'

interface EnqueueFlags extends MessageOptions, JsonOptions {
  readonly at?: Date
  readonly dedupeKey?: string
  readonly dedupeFor?: number
  readonly onDuplicate?: OnDuplicate
}

/** `sluice enqueue` */
export function addEnqueue(program: Command): void {
  const command = program
    .command('enqueue')
    .description('Enqueue one message, in a transaction of its own.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<payload>', 'the content, as JSON', parse.json)
  messageOptions(command)
    .option('--at <time>', 'due at this time, with its offset from UTC', parse.time)
    .option('-k, --dedupe-key <key>', 'its dedupe key')
    .option('--dedupe-for <duration>', 'how long the key stays taken after success', parse.durationMs)
    .option('--on-duplicate <policy>', `if the key is taken: ${ON_DUPLICATE.join(', ')} (default: reject)`, policyOf)
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(enqueue)
}

async function enqueue(queue: string, payload: unknown, given: EnqueueFlags, command: Command): Promise<void> {
  const { at, dedupeKey, dedupeFor, onDuplicate, json, ...rest } = given
  if (dedupeKey === undefined && (dedupeFor !== undefined || onDuplicate !== undefined))
    command.error('error: expected --dedupe-key with --dedupe-for and --on-duplicate')
  if (onDuplicate === 'debounce' && given.delay === undefined && at === undefined)
    command.error('error: expected --delay or --at with --on-duplicate debounce, as in --delay 5s')
  const options = at === undefined ? rest : { ...rest, dueAt: at }
  const dedupe = dedupeKey === undefined ? undefined : { key: dedupeKey, for: dedupeFor, onDuplicate }
  const answer = await withSluice(command, async (sluice) => {
    // Before there is a queue of this name.
    await noteUnknown(sluice.operate, queue)
    const own = sluice.ownTransaction
    return dedupe === undefined
      ? { id: await sluice.enqueue(own, queue, payload, options) }
      : sluice.enqueue(own, queue, payload, { ...options, dedupe: dedupe satisfies Dedupe })
  })
  if (json) printJson(answer)
  else print('outcome' in answer ? sentenceOf(answer) : `Enqueued message ${answer.id}.`)
}

function sentenceOf({ outcome, id, state }: EnqueueResult): string {
  return `${SENTENCES[outcome]} ${id}, which is ${state}.`
}

const SENTENCES: Readonly<Record<EnqueueResult['outcome'], string>> = {
  added: 'Enqueued message',
  duplicate: 'Nothing was enqueued: the key is taken by message',
  updated: 'Updated message',
  requeued: 'Enqueued once more, as message',
  debounced: 'Debounced message',
}

function policyOf(text: string): OnDuplicate {
  const known = ON_DUPLICATE.find((policy) => policy === text)
  if (known !== undefined) return known
  throw new InvalidArgumentError(`Expected one of ${ON_DUPLICATE.join(', ')}.`)
}

const EXAMPLES = `
Examples:
  $ sluice enqueue emails '{"to": "ada@example.com"}'
  $ sluice enqueue reports '{"month": "2030-01"}' --delay 5m --priority 0
  $ sluice enqueue reports '{"month": "2030-01"}' --dedupe-key 2030-01 --on-duplicate update

Applications enqueue in the transaction that changes their own tables; this is for trying things out, and for scripts.`

import { type Command, InvalidArgumentError } from 'commander'
import type { QueueSettingsInput, RateInput, StoredRetry } from '../../index.ts'
import { noteUnknown, operating } from '../connect.ts'
import { parse } from '../options.ts'
import { print } from '../output.ts'
import { settingsText } from '../show/queue-settings.ts'
import { BY, whoever } from '../whoever.ts'

type SetOptions = QueueSettingsInput & { readonly by?: string }

/** `sluice queue set` and `sluice queue unset` */
export function addQueueSet(queue: Command): void {
  queue
    .command('set')
    .description('Tell a queue settings. Workers go by them at once, without a restart; a message has its own first.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--delay <time>', 'when messages are due that give neither a delay nor a due time', parse.durationMs)
    .option('--ttl <time>', 'for how long after it is due a message may be delivered', parse.durationMs)
    .option('--on-expiry <what>', 'what becomes of one that has expired: drop or deadLetter')
    .option('--max-attempts <count>', 'after how many failed attempts it is dead', parse.countTo(1_000_000))
    .option('--retry <policy>', 'the name of a retry policy, or one as JSON', parseRetry)
    .option('--payload-limit-bytes <count>', 'the largest payload, as JSON', parse.countTo(268_435_456))
    .option('--history <time>', 'for how long messages that have succeeded are kept', parse.durationMs)
    .option('--dead-letter-retention <time>', 'for how long dead letters are kept', parse.durationMs)
    .option('--rate <rate>', 'how many may begin per time: 100/1s, or 100/1s/10 with the burst', parseRate)
    .option('--tenant-rate <rate>', 'the same for the messages of one tenant', parseRate)
    .option('--concurrency <count>', 'how many may be in flight, of all processes', parse.countTo(10_000))
    .option('--tenant-concurrency <count>', 'the same for the messages of one tenant', parse.countTo(10_000))
    .option('--by <name>', BY)
    .addHelpText('after', EXAMPLES)
    .action(async (name: string, { by = whoever(), ...settings }: SetOptions, command: Command) => {
      if (Object.keys(settings).length === 0) command.error('error: expected at least one setting, such as --ttl 7d')
      await operating(command, async (operate) => {
        await noteUnknown(operate, name)
        await operate.queues.settings.set(name, settings, { by })
        const told = await operate.queues.settings.get(name)
        print(`Queue ${name}: ${told === undefined ? 'nothing' : settingsText(told)}`)
      })
    })
  queue
    .command('unset')
    .description('Unset settings of a queue, so that the code decides again. A pause is none of them.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('[setting...]', 'which of them; without any, all', setting)
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice queue unset orders ttl max-attempts')
    .action(async (name: string, names: readonly string[], options: { by?: string }, command: Command) => {
      const which = names.length === 0 ? undefined : names
      await operating(command, async (operate) => {
        await noteUnknown(operate, name)
        await operate.queues.settings.unset(name, which?.map(toCamelCase), { by: options.by ?? whoever() })
      })
      print(`Unset ${names.length === 0 ? 'all settings' : names.join(', ')} of ${name}.`)
    })
}

/** The name of a setting as `sluice queue set` takes it. */
function setting(name: string, before: readonly string[] = []): readonly string[] {
  if (SETTINGS.some((known) => known === name)) return [...before, name]
  throw new InvalidArgumentError(`Expected one of ${SETTINGS.join(', ')}.`)
}

const SETTINGS = [
  ...(['delay', 'ttl', 'on-expiry', 'max-attempts', 'retry', 'payload-limit-bytes', 'history'] as const),
  ...(['dead-letter-retention', 'rate', 'tenant-rate', 'concurrency', 'tenant-concurrency'] as const),
] as const

function toCamelCase(name: string): keyof QueueSettingsInput {
  return name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()) as keyof QueueSettingsInput
}

function parseRetry(text: string): StoredRetry {
  if (!text.trimStart().startsWith('{')) return text
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidArgumentError('Expected a name, or JSON such as {"kind":"fixed","delay":"30s"}.')
  }
}

function parseRate(text: string): RateInput {
  const [, limit, per, burst] = /^(\d+)\/(\d+(?:ms|s|m|h|d))(?:\/(\d+))?$/.exec(text) ?? []
  if (limit === undefined || per === undefined)
    throw new InvalidArgumentError('Expected a rate such as 100/1s, or 100/1s/10.')
  return { limit: Number(limit), per: parse.durationMs(per), ...(burst === undefined ? {} : { burst: Number(burst) }) }
}

const EXAMPLES = `
Examples:
  $ sluice queue set orders --ttl 7d --max-attempts 5
  $ sluice queue set orders --retry '{"kind":"exponential","delay":"10s"}'
  $ sluice queue set orders --rate 100/1s/10 --concurrency 20`

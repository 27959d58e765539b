import { type Command, InvalidArgumentError } from 'commander'
import { separated } from '../../../basics/words/words.ts'
import {
  type QueueSetting,
  type QueueSettingsInput,
  type RateInput,
  SETTINGS,
  type SettingName,
  type StoredRetry,
} from '../../../queue-settings.ts'
import { assertKnown, assertKnownOrConfirmed } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { print } from '../../output.ts'
import { settingsText } from '../../show/queue-settings.ts'
import { BY, whoever } from '../../whoever.ts'

type QueueSetFlags = QueueSettingsInput & { readonly by?: string; readonly yes?: true }

/** `sluice queue set` and `sluice queue unset` */
export function addQueueSet(queue: Command): void {
  const set = queue
    .command('set')
    .description('Change the settings of a queue. Running workers apply them at once; the options of a message win.')
    .argument('<queue>', 'the queue', parse.queue)
  for (const { name, setting } of SETTINGS) addSetting(set, separated(name, '-'), setting)
  set
    .option('--by <name>', BY)
    .option('-y, --yes', 'do not ask, also if no queue has this name')
    .addHelpText('after', EXAMPLES)
    .action(async (name: string, { by = whoever(), yes, ...settings }: QueueSetFlags, command: Command) => {
      if (Object.keys(settings).length === 0) command.error('error: expected at least one setting, such as --ttl 7d')
      await operating(command, async (operate) => {
        await assertKnownOrConfirmed(operate, name, 'Set it', yes ? { yes } : {})
        await operate.queues.settings.set(name, settings, { by })
        const changed = await operate.queues.settings.get(name)
        print(`Queue ${name}: ${changed === undefined ? 'nothing' : settingsText(changed)}`)
      })
    })
  queue
    .command('unset')
    .description('Reset settings of a queue, so that the code decides again. A pause stays.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('[setting...]', 'the settings to reset; by default all', parseSetting)
    .option('--by <name>', BY)
    .addHelpText('after', '\nExamples:\n  $ sluice queue unset orders ttl max-attempts')
    .action(async (name: string, names: readonly SettingName[], options: { by?: string }, command: Command) => {
      const which = names.length === 0 ? SETTINGS.map((setting) => setting.name) : names
      await operating(command, async (operate) => {
        await assertKnown(operate, name)
        await operate.queues.settings.unset(name, which, { by: options.by ?? whoever() })
      })
      print(
        `Unset ${names.length === 0 ? 'all settings' : names.map((unset) => separated(unset, '-')).join(', ')} of ${name}.`,
      )
    })
}

function addSetting(command: Command, flag: string, setting: QueueSetting): void {
  switch (setting.kind) {
    case 'time':
      command.option(`--${flag} <time>`, setting.help, parse.durationMs)
      break
    case 'count':
      command.option(`--${flag} <count>`, setting.help, parse.countTo(setting.most))
      break
    case 'choice':
      command.option(`--${flag} <what>`, `${setting.help}: ${setting.words.join(' or ')}`)
      break
    case 'policy':
      command.option(`--${flag} <policy>`, setting.help, parseRetry)
      break
    case 'rate':
      command.option(`--${flag} <rate>`, setting.help, parseRate)
  }
}

/** A setting by its name in `sluice queue set`. */
function parseSetting(flag: string, before: readonly SettingName[] = []): readonly SettingName[] {
  const found = SETTINGS.find(({ name }) => separated(name, '-') === flag)
  if (found !== undefined) return [...before, found.name]
  throw new InvalidArgumentError(`Expected one of ${SETTINGS.map(({ name }) => separated(name, '-')).join(', ')}.`)
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

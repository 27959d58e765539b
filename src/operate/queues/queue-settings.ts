import { checkKeys } from '../../basics/checks/check-keys.ts'
import type { OpenTransaction } from '../../enqueue/open-transaction.ts'
import { expected } from '../../errors.ts'
import type { QueueSettingsInput, QueueSettingsStatus } from '../../queue-settings.ts'
import type { QueueDefinitions, QueueName } from '../../queues.ts'
import { readQueueSettings, setQueue } from '../../table/operate/queues/queue-settings.ts'
import type { Operations } from '../operations.ts'
import { readFields, text, unchecked } from '../options.ts'
import { readSettingsInput, SETTING_NAMES } from './read-settings.ts'

/** Who changes something, and in which transaction. */
export interface QueueChangeOptions {
  /** Who it is, for others to see. @default the database user */
  readonly by?: string | undefined
  /** Your open transaction: the change takes effect when you commit. @default one of its own */
  readonly tx?: OpenTransaction | undefined
}

/**
 * `sluice.operate.queues.settings`: settings that can change while workers run. Workers apply them at once, or with
 * their next poll. A message's own option comes first, then the setting of its queue, then the code.
 */
export type QueueSettings<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Lists the settings of queues, by name. Queues without settings are left out.
   *
   * @param options.queue only this queue.
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly queue?: QueueName<Definitions> }): Promise<readonly QueueSettingsStatus[]>

  /** Reads the settings of a queue; undefined: it has none. @throws SluiceError as {@link Operate} */
  get(queue: QueueName<Definitions>): Promise<QueueSettingsStatus | undefined>

  /**
   * Changes settings of a queue: those that are given; null unsets one.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example await sluice.operate.queues.settings.set('emails', { ttl: '7d', maxAttempts: 5 }, { by: 'ada' })
   */
  set(queue: QueueName<Definitions>, settings: QueueSettingsInput, options?: QueueChangeOptions): Promise<void>

  /**
   * Unsets all settings, so that the code decides again. A pause stays.
   *
   * @throws SluiceError as {@link set}
   */
  unset(queue: QueueName<Definitions>): Promise<void>

  /**
   * Unsets settings, so that the code decides again.
   *
   * @param names which of them
   * @throws SluiceError as {@link set}
   *
   * @example await sluice.operate.queues.settings.unset('emails', ['ttl'])
   */
  unset(
    queue: QueueName<Definitions>,
    names: readonly (keyof QueueSettingsInput)[],
    options?: QueueChangeOptions,
  ): Promise<void>
}

/** Answers the calls of {@link QueueSettings}. */
export class QueueSettingsInDatabase implements QueueSettings {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async list(options: { readonly queue?: string } = {}): Promise<readonly QueueSettingsStatus[]> {
    const remedy = "As in queues.settings.list({ queue: 'emails' })"
    const { queue } = readFields('queues.settings.list', options, { queue: this.#operations.queueOrNull }, remedy)
    return this.#operations.read((execute) => readQueueSettings(execute, queue))
  }

  async get(queue: string): Promise<QueueSettingsStatus | undefined> {
    const name = this.#operations.queue(queue)
    const [found] = await this.#operations.read((execute) => readQueueSettings(execute, name))
    return found
  }

  async set(queue: string, settings: QueueSettingsInput, options: QueueChangeOptions = {}): Promise<void> {
    const name = this.#operations.queue(queue)
    const changed = readSettingsInput('queues.settings.set', settings)
    const { by, tx } = readFields('queues.settings.set', options, CHANGE)
    await this.#operations.administer((execute) => setQueue(execute, name, changed, by), tx)
  }

  /** Names that are given and undefined are a variable without a value. They do not mean all settings. */
  async unset(
    queue: string,
    ...given: readonly [names?: readonly (keyof QueueSettingsInput)[], options?: QueueChangeOptions]
  ): Promise<void> {
    const names = given.length === 0 ? SETTING_NAMES : given[0]
    if (!Array.isArray(names)) {
      const remedy = `${AS_UNSET}. queues.settings.unset('emails') unsets all`
      throw expected('OPTION_INVALID', 'queues.settings.unset', 'an array of names', names, remedy)
    }
    checkKeys(
      'queues.settings.unset',
      Object.fromEntries(names.map((name) => [String(name), null])),
      SETTING_NAMES,
      AS_UNSET,
    )
    await this.set(queue, Object.fromEntries(names.map((name) => [name, null])), given[1])
  }
}

const AS_UNSET = "As in queues.settings.unset('emails', ['ttl'])"

/** The readers of {@link QueueChangeOptions}. No `by`: the database says who. */
export const CHANGE = { by: text, tx: unchecked }
export const PAUSE = { ...CHANGE, reason: text }

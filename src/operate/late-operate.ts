import { siteOf, stackedAt } from '../basics/call-site.ts'
import type { Calls } from '../process/calls.ts'
import type { ClaimStore } from '../pull/claim-store.ts'
import type { KnownNames } from '../streams.ts'
import { actorName } from './actor-name.ts'
import type { DoctorOptions } from './doctor.ts'
import type { Operate, OperateInDatabase } from './operate.ts'
import type { Operations } from './operations.ts'
import { readStream } from './read-stream.ts'
import type { ScheduleRules } from './schedules.ts'

/** What the calls of a Sluice are answered with. */
export interface OperateParts {
  readonly rules: ScheduleRules & KnownNames
  readonly operations: Operations
  readonly claims: ClaimStore
  readonly calls: Calls
}

/**
 * `sluice.operate`, which loads what answers its calls with the first of them: it is a quarter of what a process would load before
 * its first message, and neither consumers nor producers use it.
 */
export class LateOperate implements Operate {
  readonly messages = this.#late<Operate['messages']>(
    (operate) => operate.messages,
    [
      'list',
      'listWithoutPayloads',
      'get',
      'status',
      'explain',
      'peek',
      'cancel',
      'change',
      'reschedule',
      'runNow',
      'freeKey',
    ],
  )
  readonly queues: Operate['queues'] = {
    ...this.#late<Omit<Operate['queues'], 'settings'>>(
      (operate) => operate.queues,
      [
        'list',
        'backlogs',
        'names',
        'limits',
        'activity',
        'backlogHistory',
        'explain',
        'pause',
        'resume',
        'clear',
        'move',
        'freeKeys',
      ],
    ),
    settings: this.#late<Operate['queues']['settings']>(
      (operate) => operate.queues.settings,
      ['list', 'get', 'set', 'unset'],
    ),
  }
  readonly workers = this.#late<Operate['workers']>((operate) => operate.workers, ['list', 'inFlight'])
  readonly deadLetters = this.#late<Operate['deadLetters']>(
    (operate) => operate.deadLetters,
    ['list', 'listWithoutPayloads', 'get', 'summarise', 'redrive', 'delete'],
  )
  readonly claims = this.#late<Operate['claims']>(
    (operate) => operate.claims,
    ['list', 'get', 'renew', 'release', 'settle'],
  )
  readonly history = this.#late<Operate['history']>((operate) => operate.history, ['list', 'get'])
  readonly schedules = this.#late<Operate['schedules']>(
    (operate) => operate.schedules,
    ['set', 'list', 'get', 'explain', 'pause', 'resume', 'runNow', 'delete', 'next'],
  )
  readonly streams: Operate['streams'] = {
    ...this.#late<Omit<Operate['streams'], 'read'>>((operate) => operate.streams, ['set', 'list', 'trim']),
    read: (stream, options) => readStream(this.#parts.operations, stream, options),
  }
  readonly groups = this.#late<Operate['groups']>(
    (operate) => operate.groups,
    ['set', 'list', 'partitions', 'seek', 'retry', 'skip', 'messageOf', 'explain', 'pause', 'resume', 'delete'],
  )
  readonly endpoints = this.#late<Operate['endpoints']>(
    (operate) => operate.endpoints,
    ['set', 'list', 'get', 'disable', 'enable', 'rotate', 'delete', 'test'],
  )
  readonly audit = this.#late<Operate['audit']>((operate) => operate.audit, ['list', 'keep'])
  readonly #parts: OperateParts
  #loaded: OperateInDatabase | undefined

  constructor(parts: OperateParts) {
    this.#parts = parts
  }

  by(name: string): Operate {
    const actor = actorName(name, 'operate.by')
    const { operations, claims } = this.#parts
    return new LateOperate({ ...this.#parts, operations: operations.by(actor), claims: claims.by(actor) })
  }

  status(options?: { readonly queue?: string | undefined }) {
    return this.#answer((operate) => operate.status(options))
  }

  now() {
    return this.#answer((operate) => operate.now())
  }

  doctor(options?: DoctorOptions) {
    return this.#answer((operate) => operate.doctor(options))
  }

  metrics() {
    return this.#answer((operate) => operate.metrics())
  }

  maintain() {
    return this.#answer((operate) => operate.maintain())
  }

  /** @param calls all of the noun's */
  #late<Noun extends object>(
    nounOf: (operate: OperateInDatabase) => object,
    calls: readonly (keyof Noun & string)[],
  ): Noun {
    const late = (call: string) => {
      return (...given: readonly unknown[]) => this.#answer((operate) => answer(nounOf(operate), call, given))
    }
    return Object.fromEntries(calls.map((call) => [call, late(call)])) as object as Noun
  }

  async #answer<T>(call: (operate: OperateInDatabase) => Promise<T>): Promise<T> {
    const site = siteOf()
    try {
      return await this.#parts.calls.load(() => this.#load(), call)
    } catch (error) {
      throw stackedAt(error, site)
    }
  }

  async #load(): Promise<OperateInDatabase> {
    const module = await import('./operate.ts')
    const { rules, operations, claims } = this.#parts
    this.#loaded ??= new module.OperateInDatabase(rules, operations, claims)
    return this.#loaded
  }
}

function answer(noun: object, call: string, given: readonly unknown[]): Promise<unknown> {
  return Reflect.apply(Reflect.get(noun, call), noun, given)
}

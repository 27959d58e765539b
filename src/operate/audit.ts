import { checkId } from '../basics/checks/check-id.ts'
import { storable } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import type { QueueDefinitions, QueueName } from '../queues.ts'
import { type AuditPage, readAudit, readAuditKeep, setAuditKeep } from '../table/operate/audit.ts'
import type { Execute } from '../table/statement.ts'
import type { Operations } from './operations.ts'
import { cursorByTime, instant, limit, oneOf, type Reader, readFields, text } from './options.ts'

/** What can be done, in the order of the pages that describe it. */
const ACTIONS = [
  'message.cancel',
  'message.change',
  'message.reschedule',
  'message.run_now',
  'key.free',
  'key.free_all',
  'queue.set',
  'queue.pause',
  'queue.resume',
  'queue.clear',
  'queue.move',
  'dead.redrive',
  'dead.delete',
  'claim.renew',
  'claim.release',
  'claim.settle',
  'schedule.set',
  'schedule.pause',
  'schedule.resume',
  'schedule.run_now',
  'schedule.delete',
  'stream.set',
  'stream.trim',
  'group.set',
  'group.seek',
  'group.pause',
  'group.resume',
  'group.retry',
  'group.skip',
  'group.delete',
  'endpoint.set',
  'endpoint.disable',
  'endpoint.enable',
  'endpoint.rotate',
  'endpoint.delete',
  'audit.keep',
] as const

/** An action, or all actions on one kind of thing: `'dead'` is `'dead.redrive'` and `'dead.delete'`. */
export type AuditAction = (typeof ACTIONS)[number] | AuditKind
type AuditKind = (typeof ACTIONS)[number] extends `${infer Kind}.${string}` ? Kind : never

/** What `audit.list` takes: filters, and which page. */
export interface AuditOptions<Name extends string = string> {
  /** Only what concerned this queue, or, as `stream:group`, this group. */
  readonly queue?: Name | undefined
  /** Only what concerned this dedupe key, schedule, stream, endpoint or number of a claim. */
  readonly subject?: string | undefined
  /** Only what concerned the message with this id. An action on more than 100 messages has the first 100 ids. */
  readonly id?: string | undefined
  /** Only this action, for example `'message.cancel'`, or all on one kind of thing: `'message'`. */
  readonly action?: AuditAction | undefined
  /** Only what this person or login has done. */
  readonly actor?: string | undefined
  /** Only what was done at this instant or later, by the database's clock. */
  readonly since?: Date | undefined
  /** Only what was done before this instant. */
  readonly before?: Date | undefined
  /** The most to return, 1 to 10,000. @default 50 */
  readonly limit?: number | undefined
  /** The `next` of the page before. Without it, or with null, the list begins with the latest. */
  readonly after?: string | null | undefined
}

/** `sluice.operate.audit`: who did what. */
export type Audit<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Reads a page of what operators and administrators have done, the latest first: by the command line, by
   * `sluice.operate` and by SQL.
   *
   * @throws SluiceError as {@link Operate}
   *
   * @example const { actions } = await sluice.operate.audit.list({ queue: 'orders', action: 'dead.redrive' })
   */
  list(options?: AuditOptions<QueueName<Definitions>>): Promise<AuditPage>

  /**
   * Says for how many milliseconds actions are kept; maintenance removes them after that. At first it is 90 days.
   *
   * @throws SluiceError as {@link Operate}
   */
  keep(): Promise<number>

  /**
   * Changes for how long actions are kept, and returns it in milliseconds.
   *
   * @param duration a day to 100 years
   * @throws SluiceError as {@link Operate}
   *
   * @example await sluice.operate.audit.keep('365d')
   */
  keep(duration: Duration): Promise<number>
}

/** Answers the calls of {@link Audit}. */
export class AuditInDatabase implements Audit {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async list(options: AuditOptions = {}): Promise<AuditPage> {
    const readers = { queue: this.#operations.queueOrNull, ...FILTER }
    const search = readFields('audit.list', options, readers, "As in audit.list({ queue: 'emails' })")
    const read = (execute: Execute) => readAudit(execute, search, search)
    return search.id === null ? this.#operations.read(read) : this.#operations.count(read)
  }

  /** An undefined duration is a variable without a value, and no question. */
  async keep(...given: readonly [duration?: Duration]): Promise<number> {
    if (given.length === 0) return this.#operations.read(readAuditKeep)
    const [duration] = given
    if (duration === undefined)
      throw expected(
        'OPTION_INVALID',
        'audit.keep',
        'a duration',
        undefined,
        "As in audit.keep('365d'). audit.keep() reads it",
      )
    const keepMs = toMsWithin('audit.keep', duration, '1d')
    await this.#operations.administer((execute) => setAuditKeep(execute, keepMs))
    return keepMs
  }
}

/** The name of who acts. @throws SluiceError OPTION_INVALID */
export function actorName(name: unknown, what: string): string {
  if (typeof name === 'string' && name.length >= 1 && name.length <= 200) return storable(what, name)
  throw expected('OPTION_INVALID', what, 'a name of 1 to 200 characters', name)
}

const KINDS = [...new Set(ACTIONS.map((action) => action.split('.')[0] as AuditKind))]

const id: Reader<string | null> = (value, what) => (value === undefined ? null : checkId(value, what))

const FILTER = {
  subject: text,
  id,
  action: oneOf<AuditAction>([...ACTIONS, ...KINDS], "an action such as 'message.cancel', or a kind such as 'message'"),
  actor: text,
  since: instant,
  before: instant,
  limit: limit(50),
  after: cursorByTime(0),
}

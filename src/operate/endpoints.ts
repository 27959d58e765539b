import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { checkText } from '../enqueue/alphabet-check.ts'
import type { OpenTransaction } from '../enqueue/open-transaction.ts'
import { OUTBOUND_OPTIONS, type OutboundOptions, resolveOutbound } from '../outbound/options.ts'
import type { QueueDefinitions, QueueName } from '../queues.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { readCalledEndpoints } from '../table/endpoint/call-endpoints.ts'
import {
  defineEndpoint,
  deleteEndpoint,
  disableEndpoint,
  type EndpointOutcome,
  enableEndpoint,
  rotateSecret,
} from '../table/endpoint/define-endpoint.ts'
import {
  ENDPOINT_STATES,
  type EndpointState,
  type EndpointStatus,
  readEndpoints,
} from '../table/endpoint/endpoint-status.ts'
import { endpointUnknown, orEndpointUnknown } from '../table/endpoint/endpoint-unknown.ts'
import type { Execute } from '../table/statement.ts'
import { checkEndpointName, type EndpointDefinition, readEndpoint, secretOf } from './endpoint-definition.ts'
import type { Operations } from './operations.ts'
import { limit, oneOf, readFields, text } from './options.ts'
import { type EndpointTest, testEndpoint } from './test-endpoint.ts'

/** What `endpoints.set` has done. */
export interface DefinedEndpoint {
  /** `'unchanged'`: it was defined in the same way already, and nothing was written. */
  readonly outcome: EndpointOutcome
  /** The secret of an endpoint that was created: give it to whoever receives the webhooks. */
  readonly secret?: string
}

/** How to change an endpoint. */
export interface EndpointChangeOptions {
  /** Your open transaction, of any client that `enqueue` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

/** What {@link Endpoints.rotate} takes. */
export interface EndpointRotateOptions extends EndpointChangeOptions {
  /** For how long the old secret signs as well, up to 30 days. @default '1d' */
  readonly keep?: Duration | undefined
  /** Your own new secret. @default one that is made */
  readonly secret?: string | undefined
}

/** `sluice.endpoints`, and `sluice.operate.endpoints`: who gets the webhooks of a queue. */
export type Endpoints<Definitions extends QueueDefinitions | undefined = undefined> = {
  /**
   * Makes an endpoint, or changes it to what is given. The first endpoint of a queue limits its tenants to 5 messages in
   * flight, unless they have a limit: so endpoints get their turns, and none more than 5 requests at a time.
   *
   * @param name 1 to 100 letters, digits and _ . : -, unique in the queue.
   * @throws SluiceError as {@link Operate}
   *
   * @example
   * const { secret } = await sluice.endpoints.set('webhooks', 'acme-crm', { url: 'https://acme.example/hooks', owner: 'acme' })
   */
  set(
    queue: QueueName<Definitions>,
    name: string,
    endpoint: EndpointDefinition,
    options?: EndpointChangeOptions,
  ): Promise<DefinedEndpoint>

  /**
   * Lists the endpoints of a queue by name, without secrets.
   *
   * @param options.owner only those of this owner.
   * @param options.state only those in this state.
   * @param options.limit 1 to 10,000. @default 1000
   * @throws SluiceError as {@link Operate}
   *
   * @example const { length } = await sluice.endpoints.list('webhooks', { state: 'disabled' })
   */
  list(
    queue: QueueName<Definitions>,
    options?: {
      readonly owner?: string | undefined
      readonly state?: EndpointState | undefined
      readonly limit?: number | undefined
    },
  ): Promise<readonly EndpointStatus[]>

  /** One endpoint, without its secrets; undefined if there is none. @throws SluiceError as {@link Operate} */
  get(queue: QueueName<Definitions>, name: string): Promise<EndpointStatus | undefined>

  /**
   * Disables an endpoint: its messages wait, and it gets no new ones, until {@link enable}.
   *
   * @param options.reason why, for others to see.
   * @returns false if it is disabled already.
   * @throws SluiceError ENDPOINT_UNKNOWN, and as {@link Operate}
   */
  disable(
    queue: QueueName<Definitions>,
    name: string,
    options?: EndpointChangeOptions & { readonly reason?: string | undefined },
  ): Promise<boolean>

  /**
   * Enables an endpoint, and forgets its failures and its `Retry-After`: its messages go on, and it has the whole time until it is
   * disabled again.
   *
   * @returns false if it is enabled already, and waits for no `Retry-After`.
   * @throws SluiceError ENDPOINT_UNKNOWN, and as {@link Operate}
   */
  enable(queue: QueueName<Definitions>, name: string, options?: EndpointChangeOptions): Promise<boolean>

  /**
   * Gives an endpoint a new secret, and returns it. For `keep` its requests are signed by the old one as well.
   *
   * @throws SluiceError ENDPOINT_UNKNOWN, and as {@link Operate}
   *
   * @example const secret = await sluice.endpoints.rotate('webhooks', 'acme-crm', { keep: '7d' })
   */
  rotate(queue: QueueName<Definitions>, name: string, options?: EndpointRotateOptions): Promise<string>

  /**
   * Deletes an endpoint. Messages that wait for it become dead letters.
   *
   * @returns false if there is none.
   * @throws SluiceError as {@link Operate}
   */
  delete(queue: QueueName<Definitions>, name: string, options?: EndpointChangeOptions): Promise<boolean>

  /**
   * Sends a signed event of the type `webhook.test` to an endpoint now, whatever its state is, and returns its answer. It is not
   * counted, and not tried again.
   *
   * @param options how it is sent: give the same as to `sluice.webhooks`
   * @throws SluiceError ENDPOINT_UNKNOWN, and as {@link Operate}
   *
   * @example const { delivered, status, durationMs } = await sluice.endpoints.test('webhooks', 'acme-crm')
   */
  test(queue: QueueName<Definitions>, name: string, options?: OutboundOptions): Promise<EndpointTest>
}

/** Answers the calls of {@link Endpoints}. */
export class EndpointsInDatabase implements Endpoints {
  readonly #alphabet: Alphabet
  readonly #operations: Operations

  constructor(alphabet: Alphabet, operations: Operations) {
    this.#alphabet = alphabet
    this.#operations = operations
  }

  async set(
    queue: string,
    name: string,
    endpoint: EndpointDefinition,
    options: EndpointChangeOptions = {},
  ): Promise<DefinedEndpoint> {
    checkKeys('endpoints.set', options, ['tx'], 'As in endpoints.set(queue, name, endpoint, { tx })')
    const params = readEndpoint(endpoint)
    const [of, checked] = [this.#operations.queue(queue), checkEndpointName(name)]
    const { outcome, secret } = await this.#operations.administer(async (execute) => {
      await checkText(this.#alphabet, execute, params.owner, 'endpoint.owner')
      for (const type of params.types ?? []) await checkText(this.#alphabet, execute, type, 'endpoint.types')
      return defineEndpoint(execute, of, checked, params)
    }, options.tx)
    return secret === null ? { outcome } : { outcome, secret }
  }

  async list(
    queue: string,
    options: {
      readonly owner?: string | undefined
      readonly state?: EndpointState | undefined
      readonly limit?: number | undefined
    } = {},
  ): Promise<readonly EndpointStatus[]> {
    const readers = { owner: text, state: oneOf(ENDPOINT_STATES), limit: limit(1_000) }
    const match = readFields('endpoints.list', options, readers, "As in endpoints.list(queue, { owner: 'acme' })")
    const of = this.#operations.queue(queue)
    return this.#operations.count((execute) => readEndpoints(execute, { ...match, queue: of, name: null }))
  }

  async get(queue: string, name: string): Promise<EndpointStatus | undefined> {
    const match = { queue: this.#operations.queue(queue), name: checkEndpointName(name) }
    const [found] = await this.#operations.count((execute) =>
      readEndpoints(execute, { ...match, owner: null, state: null, limit: 1 }),
    )
    return found
  }

  async disable(
    queue: string,
    name: string,
    options: EndpointChangeOptions & { readonly reason?: string | undefined } = {},
  ): Promise<boolean> {
    checkKeys(
      'endpoints.disable',
      options,
      ['tx', 'reason'],
      "As in endpoints.disable(queue, name, { reason: 'moved' })",
    )
    const reason = text(options.reason, 'endpoints.disable.reason')
    return this.#change(queue, name, options, (...which) => disableEndpoint(...which, reason), 'change')
  }

  async enable(queue: string, name: string, options: EndpointChangeOptions = {}): Promise<boolean> {
    checkKeys('endpoints.enable', options, ['tx'], 'As in endpoints.enable(queue, name, { tx })')
    return this.#change(queue, name, options, enableEndpoint, 'change')
  }

  async rotate(queue: string, name: string, options: EndpointRotateOptions = {}): Promise<string> {
    checkKeys(
      'endpoints.rotate',
      options,
      ['tx', 'keep', 'secret'],
      "As in endpoints.rotate(queue, name, { keep: '7d' })",
    )
    const keepMs = toMsWithin('endpoints.rotate.keep', options.keep ?? '1d', 0, '30d')
    const secret = secretOf('endpoints.rotate.secret', options.secret)
    return this.#change(queue, name, options, (...which) => rotateSecret(...which, keepMs, secret), 'administer')
  }

  async delete(queue: string, name: string, options: EndpointChangeOptions = {}): Promise<boolean> {
    checkKeys('endpoints.delete', options, ['tx'], 'As in endpoints.delete(queue, name, { tx })')
    return this.#change(queue, name, options, deleteEndpoint, 'administer')
  }

  async test(queue: string, name: string, options: OutboundOptions = {}): Promise<EndpointTest> {
    checkKeys('endpoints.test', options, OUTBOUND_OPTIONS, 'As in endpoints.test(queue, name, { timeout: 5_000 })')
    const plan = resolveOutbound('endpoints.test', options)
    const [of, checked] = [this.#operations.queue(queue), checkEndpointName(name)]
    const found = await this.#operations.administer((execute) => readCalledEndpoints(execute, of, [checked]))
    const endpoint = found.get(checked)
    if (endpoint === undefined) throw endpointUnknown(of, checked)
    return testEndpoint(endpoint, plan)
  }

  async #change<T>(
    queue: string,
    name: string,
    { tx }: EndpointChangeOptions,
    work: (execute: Execute, queue: string, name: string) => Promise<T>,
    by: 'change' | 'administer',
  ): Promise<T> {
    const [of, checked] = [this.#operations.queue(queue), checkEndpointName(name)]
    try {
      return await this.#operations[by]((execute) => work(execute, of, checked), tx)
    } catch (error) {
      throw orEndpointUnknown(error, of, checked)
    }
  }
}

import { HandedMessage } from '../claim/handed-message.ts'
import { isSluiceError, toError } from '../errors.ts'
import type { Message, Outcome } from '../message.ts'
import { AddressRefused, noAnswerText } from '../outbound/no-answer.ts'
import type { Poster } from '../outbound/poster.ts'
import { type AttemptVerdict, verdictOf } from '../outbound/verdict.ts'
import { webhookRequest } from '../outbound/webhook-request.ts'
import { ACK } from '../settle/decide.ts'
import type { CalledEndpoint } from '../table/endpoint/call-endpoints.ts'
import type { Report } from '../telemetry/events.ts'
import type { EndpointCalls } from './endpoint-calls.ts'
import type { WebhooksPlan } from './options.ts'

/** What the handler works with. */
export interface WebhookHandlerOptions {
  readonly plan: WebhooksPlan
  readonly calls: EndpointCalls
  /** Loaded with the first request. */
  readonly poster: () => Promise<Poster>
  readonly report: Report
}

/** The handler of webhooks: sends a message to its endpoint, and says what becomes of it by the answer. */
export class WebhookHandler {
  readonly kind = 'each'
  readonly #options: WebhookHandlerOptions

  constructor(options: WebhookHandlerOptions) {
    this.#options = options
  }

  readonly handle = async (message: Message, { signal }: { readonly signal: AbortSignal }): Promise<Outcome> => {
    const name = message.tenant ?? message.orderingKey
    if (name === null || message.type === null) return dead(NO_ENDPOINT)
    const found = await this.#read(name)
    if (found === 'unreachable') return { kind: 'snooze', afterMs: UNREACHABLE_MS }
    if (found === undefined) return dead(`endpoint ${JSON.stringify(name)} does not exist`)
    if (found.state === 'gone') return dead(goneText(name))
    // A claim passes over these, but for messages with an ordering key, and those that it had already.
    if (found.state === 'disabled') return { kind: 'snooze', afterMs: DISABLED_MS }
    if (found.closedMs !== null) return { kind: 'snooze', afterMs: Math.min(found.closedMs, DISABLED_MS) }
    const verdict = await this.#attempt(message, message.type, found, signal)
    await this.#note(found, verdict)
    if (verdict.gone && (await this.#hasMoved(found))) return { kind: 'retryLater', error: verdict.error ?? '' }
    return this.#outcomeOf(message, name, verdict)
  }

  async #read(name: string): Promise<CalledEndpoint | undefined | 'unreachable'> {
    try {
      return await this.#options.calls.read(name)
    } catch (error) {
      // That says nothing about the message, and counts no attempt.
      if (isSluiceError(error, 'UNREACHABLE')) return 'unreachable'
      throw error
    }
  }

  async #attempt(
    message: Message,
    type: string,
    endpoint: CalledEndpoint,
    signal: AbortSignal,
  ): Promise<AttemptVerdict> {
    const { payload } = HandedMessage.storedOf(message)
    const event = { id: `${endpoint.source}_${message.id}`, type, at: message.enqueuedAt, payload }
    const poster = await this.#options.poster()
    try {
      const answer = await poster.post(webhookRequest(endpoint, event, endpoint.nowMs), signal)
      return verdictOf(answer, Date.now())
    } catch (error) {
      // A stop, a lost lease or a cancelled message say nothing about the endpoint.
      signal.throwIfAborted()
      if (error instanceof AddressRefused) this.#reportRefused(endpoint.name, error)
      return { status: null, error: noAnswerText(error), closedMs: null, gone: false }
    }
  }

  /** The address is for the operator alone: others may read the error of an endpoint. */
  #reportRefused(endpoint: string, { address }: AddressRefused): void {
    const { plan, report } = this.#options
    report({ kind: 'endpoint.refused', queue: plan.pipeline.queue, endpoint, address })
  }

  /** Whether an endpoint has another URL by now, or may have. */
  async #hasMoved({ name, url }: CalledEndpoint): Promise<boolean> {
    const found = await this.#read(name)
    return found === 'unreachable' || (found !== undefined && found.url !== url)
  }

  /** What became of the message is known, and does not change because it could not be noted. */
  async #note({ name, url }: CalledEndpoint, { status, error, closedMs, gone }: AttemptVerdict): Promise<void> {
    const { calls, plan, report } = this.#options
    try {
      await calls.note({ name, url, attempts: 1, successes: error === null ? 1 : 0, status, error, closedMs, gone })
    } catch (thrown) {
      report({ kind: 'endpoint.unnoted', queue: plan.pipeline.queue, endpoint: name, error: toError(thrown) })
    }
  }

  #outcomeOf({ orderingKey }: Message, name: string, { error, closedMs, gone }: AttemptVerdict): Outcome {
    if (error === null) return ACK
    if (gone) return { kind: 'deadLetter', reason: goneText(name), error }
    if (closedMs === null) return { kind: 'retryLater', error }
    // Not sooner than the policy says, so that an endpoint that asks for a second does not use up all attempts. One that keeps
    // others back is looked at sooner, because `enable` may open the endpoint: a look counts no attempt.
    return { kind: 'retryLater', error, atLeastMs: orderingKey === null ? closedMs : Math.min(closedMs, DISABLED_MS) }
  }
}

function dead(reason: string): Outcome {
  return { kind: 'deadLetter', reason }
}

function goneText(name: string): string {
  return `endpoint ${JSON.stringify(name)} is gone: it has answered 410`
}

const NO_ENDPOINT = 'expected a message of an endpoint, with a type: send it by sendWebhook'
const UNREACHABLE_MS = 1_000
const DISABLED_MS = 300_000

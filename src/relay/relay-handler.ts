import { pause } from '../basics/time/pause.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import { errorText } from '../errors.ts'
import { RELEASE, type Release } from '../handle/release.ts'
import type { Message, Outcome } from '../message.ts'
import { ACK } from '../settle/decide.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from './destination.ts'
import type { RelayPlan } from './options.ts'
import { toOutgoing } from './outgoing.ts'
import { publishBatch } from './publish-batch.ts'
import type { RelayOutlet } from './relay-outlet.ts'

/** The handler of a relay's batches: publishes them, and says what becomes of each message. */
export class RelayHandler {
  readonly kind = 'batch'
  readonly #plan: RelayPlan
  readonly #outlet: RelayOutlet

  constructor(plan: RelayPlan, outlet: RelayOutlet) {
    this.#plan = plan
    this.#outlet = outlet
  }

  readonly handle = async (
    messages: readonly Message[],
    { signal }: { readonly signal: AbortSignal },
  ): Promise<readonly (Outcome | Release)[]> => {
    const open = this.#outlet.openFor(messages.length)
    if (open === undefined) return messages.map(() => RELEASE)
    const { connection, source } = open
    const made = messages.map((message) => this.#outgoing(message, source, connection))
    const sent = made.filter((one) => typeof one !== 'string')
    const verdicts = await this.#publish(connection, sent, signal)
    return made.map((one) =>
      typeof one === 'string' ? { kind: 'deadLetter', reason: one } : outcomeOf(verdicts.get(one)),
    )
  }

  /** Text: why the message can never be published. */
  #outgoing(message: Message, source: string, connection: DestinationConnection): OutgoingMessage | string {
    const outgoing = toOutgoing(message, source, this.#plan.format)
    return typeof outgoing === 'string' ? outgoing : (checked(connection, outgoing) ?? outgoing)
  }

  async #publish(
    connection: DestinationConnection,
    outgoing: readonly OutgoingMessage[],
    stopping: AbortSignal,
  ): Promise<ReadonlyMap<OutgoingMessage, Verdict>> {
    const over = new AbortController()
    const end = () => over.abort()
    // AbortSignal.any would take longer than to publish a message.
    stopping.addEventListener('abort', end)
    if (stopping.aborted) end()
    const timer = startTimer(end, this.#plan.confirmMs)
    try {
      const verdicts = await publishBatch(connection, outgoing, this.#plan, over.signal)
      // A stop breaks off: that says nothing about the destination.
      if (!stopping.aborted) await this.#keep(this.#outlet.heard(connection, [...verdicts.values()]), stopping)
      return verdicts
    } finally {
      clearTimeout(timer)
      stopping.removeEventListener('abort', end)
    }
  }

  /** Most batches wait for nothing, and a timer of 0 ms takes 1 ms. */
  async #keep(ms: number, stopping: AbortSignal): Promise<void> {
    if (ms > 0) await pause(ms, stopping)
  }
}

/** A function of the user's may throw for this message, and would again. */
function checked(connection: DestinationConnection, outgoing: OutgoingMessage): string | undefined {
  try {
    const reason: unknown = connection.check(outgoing)
    return reason === undefined || typeof reason === 'string' ? reason : errorText(reason)
  } catch (error) {
    return errorText(error)
  }
}

/** @param verdict undefined: it was not sent */
function outcomeOf(verdict: Verdict | undefined): Outcome | Release {
  switch (verdict?.kind) {
    case 'confirmed':
      return ACK
    case 'refused':
      return { kind: 'deadLetter', reason: verdict.error }
    case 'failed':
      return { kind: 'retryLater', error: verdict.error, ...afterOf(verdict) }
    default:
      return RELEASE
  }
}

/** What an adapter says may be any number; without one the retry policy says when. */
function afterOf({ afterMs }: { readonly afterMs?: unknown }): { readonly afterMs?: number } {
  return typeof afterMs === 'number' && afterMs >= 0 ? { afterMs: Math.min(afterMs, MOST_AFTER_MS) } : {}
}

const MOST_AFTER_MS = 86_400_000

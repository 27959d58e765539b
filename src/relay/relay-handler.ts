import { pause } from '../basics/pause.ts'
import { startTimer } from '../basics/start-timer.ts'
import { errorText } from '../errors.ts'
import { RELEASE, type Release } from '../handle/release.ts'
import type { Message, Outcome } from '../message.ts'
import { ACK } from '../settle/decide.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from './destination.ts'
import type { RelayPlan } from './options.ts'
import { refusalOf, toOutgoing } from './outgoing.ts'
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
    const { format } = this.#plan
    const refusals = new Map<Message, string>()
    const outgoing: OutgoingMessage[] = []
    for (const message of messages) {
      const refused = refusalOf(message, source, format)
      const one = toOutgoing(message, source, format)
      const reason = refused ?? checked(connection, one)
      if (reason === undefined) outgoing.push(one)
      else refusals.set(message, reason)
    }
    const verdicts = await this.#publish(connection, outgoing, signal)
    return messages.map((message) => {
      const reason = refusals.get(message)
      return reason === undefined ? outcomeOf(verdicts.get(message)) : { kind: 'deadLetter', reason }
    })
  }

  async #publish(
    connection: DestinationConnection,
    outgoing: readonly OutgoingMessage[],
    stopping: AbortSignal,
  ): Promise<ReadonlyMap<Message, Verdict>> {
    const late = new AbortController()
    const timer = startTimer(() => late.abort(), this.#plan.confirmMs)
    try {
      const signal = AbortSignal.any([stopping, late.signal])
      const verdicts = await publishBatch(connection, outgoing, this.#plan, signal)
      // A stop breaks off: that says nothing about the destination.
      if (!stopping.aborted) await pause(this.#outlet.heard(connection, [...verdicts.values()]), stopping)
      return new Map([...verdicts].map(([{ message }, verdict]) => [message, verdict]))
    } finally {
      clearTimeout(timer)
    }
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

import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from './destination.ts'
import { Grace } from './grace.ts'
import type { RelayPlan } from './options.ts'
import { soundVerdicts } from './sound-verdicts.ts'
import { unavailable } from './unavailable.ts'
import { callsOf } from './waves.ts'

/**
 * Publishes messages in waves, and returns the verdicts of those that were sent: a message is not sent before the one
 * before it of its key is confirmed, or can never be, and none is sent after one that found the destination out of reach.
 * A destination that keeps the order of a key by itself gets all messages as one wave.
 */
export async function publishBatch(
  connection: DestinationConnection,
  messages: readonly OutgoingMessage[],
  plan: Pick<RelayPlan, 'keepsOrder' | 'mostBytes'>,
  signal: AbortSignal,
): Promise<ReadonlyMap<OutgoingMessage, Verdict>> {
  const judged = new Judged()
  const grace = new Grace(signal)
  try {
    for (const call of callsOf(messages, plan)) {
      if (signal.aborted) break
      const sent = judged.free(call)
      if (sent.length === 0) continue
      judged.add(sent, await answersTo(connection, sent, signal, grace))
      if (judged.isOutOfReach) break
    }
  } finally {
    grace.end()
  }
  return judged.verdicts
}

/** The verdicts that count. Behind a message of its key that was not stored, a message is as if it had not been sent. */
class Judged {
  readonly verdicts = new Map<OutgoingMessage, Verdict>()
  isOutOfReach = false
  /** Keys of which no more is sent. */
  readonly #held = new Set<string | null>()

  /** Those that may be sent. */
  free(messages: readonly OutgoingMessage[]): readonly OutgoingMessage[] {
    return this.#held.size === 0 ? messages : messages.filter(({ message }) => !this.#held.has(message.orderingKey))
  }

  add(sent: readonly OutgoingMessage[], answers: readonly Verdict[]): void {
    // Of keys in this call: behind them a destination that keeps the order may have stored nothing.
    const refused = new Set<string | null>()
    for (const [at, outgoing] of sent.entries()) {
      const { orderingKey } = outgoing.message
      if (this.#held.has(orderingKey)) continue
      const verdict = answers[at] ?? NO_CONFIRM
      if (orderingKey !== null && isStop(verdict)) this.#held.add(orderingKey)
      if (verdict.kind === 'unavailable' && refused.has(orderingKey)) continue
      this.verdicts.set(outgoing, verdict)
      this.isOutOfReach ||= verdict.kind === 'unavailable'
      if (orderingKey !== null && verdict.kind === 'refused') refused.add(orderingKey)
    }
  }
}

/** Whether the next message of its key may not go. */
function isStop({ kind }: Verdict): boolean {
  return kind === 'unavailable' || kind === 'failed'
}

/**
 * An adapter that rejects, or answers too little, too late or what is no verdict, has said nothing about its messages. A verdict
 * that is not understood must not count as an answer: its message would come again at once, for ever.
 */
async function answersTo(
  connection: DestinationConnection,
  messages: readonly OutgoingMessage[],
  signal: AbortSignal,
  grace: Grace,
): Promise<readonly Verdict[]> {
  const publishing = async () => soundVerdicts(await connection.publish(messages, signal), messages.length)
  const published = publishing().catch((error: unknown) => {
    const verdict = unavailable(error)
    return messages.map(() => verdict)
  })
  return (await Promise.race([published, grace.over])) ?? messages.map(() => NO_CONFIRM)
}

import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { shownIdOf } from '../claim/handed-message.ts'
import { type ClaimClock, waitedMs } from '../statistics/meter.ts'
import type { WatchedCall } from '../telemetry/instrument.ts'

/** What an instrument sees of a call of the handler that begins now. */
export function watchedCall(
  kind: WatchedCall['kind'],
  clock: ClaimClock | undefined,
  messages: readonly DeliveredMessage[],
  nowMs: number,
): WatchedCall {
  return {
    kind,
    queue: messages[0]!.queue,
    messages: messages.map((message) => ({
      id: shownIdOf(message),
      type: message.row.type,
      attempt: message.attempt,
      headers: message.row.headers,
      waitedMs: clock && waitedMs(message.row.dueUs, clock, nowMs),
    })),
  }
}

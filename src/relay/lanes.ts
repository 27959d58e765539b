import type { OutgoingMessage } from './destination.ts'

/**
 * Messages that are sent one after another, each when the one before it is confirmed. Messages of a key share a lane; each
 * without a key has one to itself.
 */
export type Lane = readonly OutgoingMessage[]

/**
 * The lanes of a batch. A wave takes the first message of each lane: pipelined within a wave, and never two of a key, because
 * a broker that loses the first and stores the second has them in the wrong order.
 */
export function lanesOf(messages: readonly OutgoingMessage[]): readonly Lane[] {
  return [...Map.groupBy(messages, laneOf).values()]
}

/** The key of the messages in a lane, or the one message without a key. */
export type LaneKey = string | OutgoingMessage

export function laneOf(outgoing: OutgoingMessage): LaneKey {
  return outgoing.message.orderingKey ?? outgoing
}

/** A wave in portions of so many bytes at most; a larger message is a portion of its own. */
export function* portionsOf(
  wave: readonly OutgoingMessage[],
  mostBytes: number,
): Generator<readonly OutgoingMessage[]> {
  let portion: OutgoingMessage[] = []
  let bytes = 0
  for (const outgoing of wave) {
    const size = outgoing.body.byteLength
    if (portion.length > 0 && bytes + size > mostBytes) {
      yield portion
      portion = []
      bytes = 0
    }
    portion.push(outgoing)
    bytes += size
  }
  if (portion.length > 0) yield portion
}

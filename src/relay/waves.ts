import type { OutgoingMessage } from './destination.ts'
import type { RelayPlan } from './options.ts'

/** Messages that are sent without waiting in between. */
type Wave = readonly OutgoingMessage[]

/** The messages of each call of `publish`, in waves of so many bytes at most; a larger message goes alone. */
export function* callsOf(
  messages: readonly OutgoingMessage[],
  { keepsOrder, mostBytes }: Pick<RelayPlan, 'keepsOrder' | 'mostBytes'>,
): Generator<Wave> {
  for (const wave of keepsOrder ? [messages] : wavesOf(messages)) yield* portionsOf(wave, mostBytes)
}

/**
 * The waves of a batch: the n-th has the n-th message of each key, and the first one those without a key as well. So a wave has
 * never two of a key: a broker that loses the first and stores the second has them in the wrong order.
 */
function wavesOf(messages: readonly OutgoingMessage[]): readonly Wave[] {
  const waves: OutgoingMessage[][] = []
  const counts = new Map<string, number>()
  for (const outgoing of messages) {
    const { orderingKey } = outgoing.message
    const before = orderingKey === null ? 0 : (counts.get(orderingKey) ?? 0)
    if (orderingKey !== null) counts.set(orderingKey, before + 1)
    const wave = waves[before]
    if (wave === undefined) waves.push([outgoing])
    else wave.push(outgoing)
  }
  return waves
}

function* portionsOf(wave: Wave, mostBytes: number): Generator<Wave> {
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

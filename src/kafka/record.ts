import { compatibilityPartitioner, type MessageToProduce } from '@platformatic/kafka'
import type { OutgoingMessage } from '../relay/destination.ts'

/** A partition of a topic. */
export interface Place {
  readonly topic: string
  readonly partition: number
}

/** A message as it goes to a partition. */
export type KafkaRecord = MessageToProduce & { readonly partition: number }

/** What is expected instead of a topic; undefined: it is well. */
export function wrongTopic(topic: unknown): string | undefined {
  const isName = typeof topic === 'string' && /^[-.\w]{1,249}$/.test(topic) && topic !== '.' && topic !== '..'
  return isName ? undefined : 'the name of a topic, of 1 to 249 letters, digits, dots, - and _'
}

/** The partitions of a topic. */
export interface Partitions {
  readonly count: number
  /** Those that have a leader. */
  readonly led: readonly number[]
}

/**
 * The record of a message. Messages of a key go to one partition, the same that other clients of Kafka choose; others go where there
 * is a leader.
 *
 * @param turn chooses the partition of a message without a key
 */
export function toRecord(
  outgoing: OutgoingMessage,
  topic: string,
  { count, led }: Partitions,
  turn: number,
): KafkaRecord {
  const { id, body, headers, message } = outgoing
  const value = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const entries = Object.entries({ ...headers, id }).map(
    ([name, text]) => [Buffer.from(name), Buffer.from(text)] as const,
  )
  const record = { topic, value, headers: new Map(entries) }
  if (message.orderingKey === null) return { ...record, partition: led[turn % led.length] ?? turn % count }
  const key = Buffer.from(message.orderingKey)
  return { ...record, key, partition: compatibilityPartitioner(record, key) % count }
}

/** The name of a partition among those of all topics. */
export function placeOf({ topic, partition }: Place): string {
  return `${topic}:${partition}`
}

/**
 * Records in rounds of so many bytes for a partition at most: a partition takes or refuses what it gets in one request as a
 * whole, and refuses more than `max.message.bytes`, about a megabyte. A larger record is alone in its partition's part.
 */
export function roundsOf(records: readonly KafkaRecord[], mostBytes = 900_000): readonly (readonly KafkaRecord[])[] {
  const rounds: KafkaRecord[][] = []
  let bytes = new Map<string, number>()
  for (const record of records) {
    const place = placeOf(record)
    const [before, size] = [bytes.get(place) ?? 0, sizeOf(record)]
    if (rounds.length === 0 || (before > 0 && before + size > mostBytes)) {
      rounds.push([])
      bytes = new Map()
    }
    rounds.at(-1)?.push(record)
    bytes.set(place, (bytes.get(place) ?? 0) + size)
  }
  return rounds
}

function sizeOf({ key, value, headers }: KafkaRecord): number {
  let size = (key?.byteLength ?? 0) + (value?.byteLength ?? 0) + OTHER_BYTES
  if (headers instanceof Map)
    for (const [name, text] of headers) size += name.byteLength + text.byteLength + OTHER_BYTES
  return size
}

/** Lengths, offsets and times, at most. */
const OTHER_BYTES = 30

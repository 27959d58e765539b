import type { CommitOptionsPartition, KafkaRecord, RecordsBatch } from '@platformatic/kafka'
import { type Place, placeOf } from './record.ts'

/** A record, and where it is. */
export interface FetchedRecord extends Pick<KafkaRecord, 'key' | 'value' | 'headers'>, Place {
  readonly offset: bigint
  /** Of the batch in which it was stored. */
  readonly leaderEpoch: number
}

/** What an answer has of a partition. */
export interface PartitionData {
  readonly records?: readonly RecordsBatch[] | null | undefined
  /** The transactions among them that were aborted, each with its first offset. */
  readonly abortedTransactions: readonly AbortedTransaction[] | null
}

interface AbortedTransaction {
  readonly producerId: bigint
  readonly firstOffset: bigint
}

/** The records of a partition in the answer to a fetch, from a position on, and the position behind them. */
export function recordsIn(
  place: Place,
  { abortedTransactions, records: batches }: PartitionData,
  position: bigint,
): { readonly records: readonly FetchedRecord[]; readonly next: bigint } {
  const aborted = new AbortedProducers(abortedTransactions ?? [])
  const read: (readonly FetchedRecord[])[] = []
  let next = position
  for (const batch of batches ?? []) {
    if (!aborted.wrote(batch) && !isControl(batch)) read.push(recordsOf(place, batch, position))
    const end = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    if (end > next) next = end
  }
  return { records: read.flat(), next }
}

/** The offsets to commit when records are acked, while others are not: up to the first one of these in their partition. */
export function offsetsOf(
  acked: readonly FetchedRecord[],
  others: readonly FetchedRecord[],
): readonly CommitOptionsPartition[] {
  const offsets = new Map<string, CommitOptionsPartition>()
  for (const { topic, partition, offset, leaderEpoch } of acked)
    offsets.set(placeOf({ topic, partition }), { topic, partition, offset: offset + 1n, leaderEpoch })
  for (const other of others) {
    const own = offsets.get(placeOf(other))
    if (own !== undefined && other.offset < own.offset) own.offset = other.offset
  }
  return [...offsets.values()]
}

/** The producers whose transactions were aborted, on the way through the batches of a partition. */
class AbortedProducers {
  readonly #toCome: readonly AbortedTransaction[]
  readonly #open = new Set<bigint>()
  #passed = 0

  constructor(transactions: readonly AbortedTransaction[]) {
    this.#toCome = transactions.toSorted((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1))
  }

  /** Whether it is a batch of an aborted transaction, or the mark of its end. */
  wrote(batch: RecordsBatch): boolean {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    const toCome = this.#toCome
    for (let one = toCome[this.#passed]; one !== undefined && one.firstOffset <= last; one = toCome[++this.#passed])
      this.#open.add(one.producerId)
    if (!isTransactional(batch) || !this.#open.has(batch.producerId)) return false
    if (isControl(batch)) this.#open.delete(batch.producerId)
    return true
  }
}

function recordsOf({ topic, partition }: Place, batch: RecordsBatch, position: bigint): readonly FetchedRecord[] {
  const all = batch.records.map(({ key, value, headers, offsetDelta }) => {
    const offset = batch.firstOffset + BigInt(offsetDelta)
    return { topic, partition, offset, leaderEpoch: batch.partitionLeaderEpoch, key, value, headers }
  })
  // A batch comes as a whole, also when the position is in the middle of it.
  return all.filter(({ offset }) => offset >= position)
}

function isTransactional({ attributes }: RecordsBatch): boolean {
  return (attributes & 0b1_0000) !== 0
}

/** Whether its records are marks of the ends of transactions. */
function isControl({ attributes }: RecordsBatch): boolean {
  return (attributes & 0b10_0000) !== 0
}

import type { KafkaRecord, RecordsBatch } from '@platformatic/kafka'
import { describe, expect, test } from 'vitest'
import { type FetchedRecord, offsetsOf, recordsIn } from '../../../src/kafka/fetched.ts'
import { receivedOf } from '../../../src/kafka/received.ts'

const PLACE = { topic: 'orders', partition: 3 }
const [TRANSACTIONAL, CONTROL] = [0b1_0000, 0b10_0000]

function record(offsetDelta: number, more: Partial<KafkaRecord> = {}): KafkaRecord {
  return { length: 0, attributes: 0, timestampDelta: 0n, offsetDelta, key: null, value: null, headers: [], ...more }
}

/** A batch of so many records. */
function batch(first: number, count: number, more: Partial<RecordsBatch> = {}): RecordsBatch {
  return {
    firstOffset: BigInt(first),
    length: 0,
    partitionLeaderEpoch: 7,
    magic: 2,
    crc: 0,
    attributes: 0,
    lastOffsetDelta: count - 1,
    firstTimestamp: 0n,
    maxTimestamp: 0n,
    producerId: -1n,
    producerEpoch: 0,
    firstSequence: 0,
    records: Array.from({ length: count }, (_, n) => record(n)),
    ...more,
  }
}

function read(
  records: readonly RecordsBatch[],
  position = 0,
  aborted: readonly (readonly [id: bigint, first: bigint])[] = [],
) {
  const abortedTransactions = aborted.map(([producerId, firstOffset]) => ({ producerId, firstOffset }))
  const answer = recordsIn(PLACE, { records, abortedTransactions }, BigInt(position))
  return { offsets: answer.records.map(({ offset }) => Number(offset)), next: Number(answer.next) }
}

const by = (producerId: bigint) => ({ producerId, attributes: TRANSACTIONAL })
const endOf = (producerId: bigint) => ({ producerId, attributes: TRANSACTIONAL | CONTROL })

describe('the records of an answer', () => {
  test('begin at the position, also in the middle of a batch', () => {
    expect(read([batch(10, 5), batch(15, 2)], 13)).toEqual({ offsets: [13, 14, 15, 16], next: 17 })
    expect(read([], 13)).toEqual({ offsets: [], next: 13 })
  })

  test('leave out what compaction has removed, and the position passes over it', () => {
    const gaps = batch(10, 5, { records: [record(1), record(3)] })
    expect(read([gaps], 10)).toEqual({ offsets: [11, 13], next: 15 })
  })

  test('leave out marks of transactions, and the position passes over them', () => {
    expect(read([batch(0, 2, by(1n)), batch(2, 1, endOf(1n))])).toEqual({ offsets: [0, 1], next: 3 })
  })

  test('leave out aborted transactions, also several of one producer and one whose end is not in the answer', () => {
    const batches = [
      batch(0, 1, by(1n)),
      batch(1, 1, by(2n)),
      batch(2, 1, endOf(1n)),
      batch(3, 1, by(1n)),
      batch(4, 1, endOf(1n)),
      batch(5, 1, by(1n)),
      batch(6, 1, endOf(1n)),
      batch(7, 1, by(3n)),
      batch(8, 1),
    ]
    const aborted = [
      [3n, 7n],
      [1n, 0n],
      [1n, 5n],
    ] as const
    expect(read(batches, 0, aborted)).toEqual({ offsets: [1, 3, 8], next: 9 })
  })
})

describe('the offsets that an ack commits', () => {
  const fetched = (partition: number, offset: number): FetchedRecord => {
    return { topic: 'orders', partition, offset: BigInt(offset), leaderEpoch: 7, key: null, value: null, headers: [] }
  }

  test('are behind the last message of each partition, and before one that is not acked', () => {
    const acked = [fetched(0, 4), fetched(1, 8), fetched(0, 5)]
    const at = (partition: number, offset: bigint) => ({ topic: 'orders', partition, offset, leaderEpoch: 7 })
    expect(offsetsOf(acked, [])).toEqual([at(0, 6n), at(1, 9n)])
    expect(offsetsOf(acked, [fetched(0, 6), fetched(1, 3)])).toEqual([at(0, 6n), at(1, 3n)])
  })
})

describe('a received record', () => {
  const pairs = (headers: Readonly<Record<string, string | Buffer>>): [Buffer, Buffer][] =>
    Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)])
  const received = (
    headers: [Buffer | null, Buffer | null][],
    key: Buffer | null = null,
    value: Buffer | null = null,
  ) => receivedOf({ ...PLACE, offset: 4711n, leaderEpoch: 7, key, value, headers })

  test('has the id of its header, of its CloudEvent, or of its place', () => {
    const event = { ce_source: '/shop', ce_id: 'e-1', ce_type: 'order.placed' }
    expect(received(pairs({ ...event, id: 'm-1' }))).toMatchObject({ id: 'm-1', type: 'order.placed', headers: event })
    expect(received(pairs(event)).id).toBe('/shop e-1')
    expect(received(pairs({ ce_id: 'e-1' })).id).toBe('orders/3/4711')
    expect(received(pairs({ id: '' })).id).toBe('orders/3/4711')
  })

  test('has its key as ordering key, and what is not text in base64', () => {
    expect(received([]).orderingKey).toBeUndefined()
    expect(received([], Buffer.from('grüße')).orderingKey).toBe('grüße')
    expect(received([], Buffer.from([0, 0, 0, 7])).orderingKey).toBe('AAAABw==')
    const headers = [...pairs({ a: 'first', n: Buffer.from([0xff]) }), ...pairs({ a: 'last' }), [null, null]]
    expect(received(headers as [Buffer | null, Buffer | null][]).headers).toEqual({ a: 'last', n: '/w==', '': '' })
  })

  test('is null where the record has no value', () => {
    expect(String(received([]).body)).toBe('null')
    expect(String(received([], null, Buffer.alloc(0)).body)).toBe('')
  })
})

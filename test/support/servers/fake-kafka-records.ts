import { createRecordsBatch, type KafkaRecord } from '@platformatic/kafka'

/** A record as a producer gives it. */
export interface RecordToPut {
  readonly key?: string | Buffer
  readonly value: string | Buffer
  readonly headers?: Readonly<Record<string, string | Buffer>>
}

/** The same as a partition stores it. */
export function storedRecord({ key, value, headers = {} }: RecordToPut): KafkaRecord {
  const pairs = Object.entries(headers).map(([name, text]): [Buffer, Buffer] => [Buffer.from(name), bytesOf(text)])
  const untold = { length: 0, attributes: 0, timestampDelta: 0n, offsetDelta: 0 }
  return { ...untold, key: key === undefined ? null : bytesOf(key), value: bytesOf(value), headers: pairs }
}

/** A batch of records, the first of which has this offset. */
export function batchFrom(offset: number, records: readonly KafkaRecord[]): Buffer {
  if (records.length === 0) return Buffer.alloc(0)
  const messages = records.map(({ key, value, headers }) => ({
    topic: '',
    ...(key === null ? {} : { key }),
    value: value ?? Buffer.alloc(0),
    headers: new Map(headers.map(([name, text]) => [name ?? Buffer.alloc(0), text ?? Buffer.alloc(0)])),
  }))
  const batch = Buffer.from(createRecordsBatch(messages).buffer)
  batch.writeBigInt64BE(BigInt(offset))
  return batch
}

function bytesOf(text: string | Buffer): Buffer {
  return typeof text === 'string' ? Buffer.from(text) : text
}

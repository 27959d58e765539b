import type { KafkaRecord, Reader, Writer } from '@platformatic/kafka'
import { untilAborted } from '../../../src/basics/promises/until-aborted.ts'
import { codeOf, PLAIN, topicsOf } from './fake-kafka-protocol.ts'
import { batchFrom } from './fake-kafka-records.ts'

/** What the partitions of a server have stored, by `topic:partition`. */
export class FakeKafkaLog {
  readonly stored = new Map<string, KafkaRecord[]>()
  /** How many of the oldest records have been removed. */
  readonly removed = new Map<string, number>()
  /** Fulfilled with the next record. */
  #appended = Promise.withResolvers<void>()

  append(place: string, records: readonly KafkaRecord[]): void {
    this.stored.set(place, [...(this.stored.get(place) ?? []), ...records])
    this.#appended.resolve()
    this.#appended = Promise.withResolvers()
  }

  /** Version 4. It waits for a record where there is none. */
  async fetch(request: Reader, answer: Writer, stopping: AbortSignal): Promise<Writer> {
    request.readInt32()
    const waitMs = request.readInt32()
    request.skip(LIMITS_BYTES)
    const topics = topicsOf(request, (r) => {
      const part = { index: r.readInt32(), offset: Number(r.readInt64()) }
      r.readInt32()
      return part
    })
    const late = AbortSignal.any([AbortSignal.timeout(waitMs), stopping])
    const isThere = () =>
      topics.some(({ name, parts }) => parts.some(({ index, offset }) => this.#endOf(`${name}:${index}`) !== offset))
    while (!isThere() && !late.aborted) await untilAborted(this.#appended.promise, late)
    return answer.appendInt32(0).appendArray(
      [...topics],
      (w, { name, parts }) => {
        w.appendString(name, false).appendArray(
          [...parts],
          (w2, { index, offset }) => this.#recordsFrom(w2, `${name}:${index}`, index, offset),
          ...PLAIN,
        )
      },
      ...PLAIN,
    )
  }

  #recordsFrom(answer: Writer, place: string, index: number, offset: number): void {
    const [first, end] = [this.removed.get(place) ?? 0, this.#endOf(place)]
    const error = offset < first || offset > end ? 'OFFSET_OUT_OF_RANGE' : 'NONE'
    const records = error === 'NONE' ? (this.stored.get(place) ?? []).slice(offset, offset + RECORDS_OF_A_BATCH) : []
    answer
      .appendInt32(index)
      .appendInt16(codeOf(error))
      .appendInt64(BigInt(end))
      .appendInt64(BigInt(end))
      .appendArray([], () => undefined, ...PLAIN)
      .appendBytes(batchFrom(offset, records), false)
  }

  /** Version 2. */
  list(request: Reader, answer: Writer): Writer {
    request.readInt32()
    request.readInt8()
    const topics = topicsOf(request, (r) => ({ index: r.readInt32(), isOldest: r.readInt64() === -2n }))
    return answer.appendInt32(0).appendArray(
      [...topics],
      (w, { name, parts }) => {
        w.appendString(name, false).appendArray(
          [...parts],
          (w2, { index, isOldest }) => {
            const place = `${name}:${index}`
            const offset = isOldest ? (this.removed.get(place) ?? 0) : this.#endOf(place)
            w2.appendInt32(index).appendInt16(0).appendInt64(-1n).appendInt64(BigInt(offset))
          },
          ...PLAIN,
        )
      },
      ...PLAIN,
    )
  }

  #endOf(place: string): number {
    return this.stored.get(place)?.length ?? 0
  }
}

/** In a fetch: the least and the most bytes of the answer, and the isolation level. */
const LIMITS_BYTES = 4 + 4 + 1
const RECORDS_OF_A_BATCH = 50

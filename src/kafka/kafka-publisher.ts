import { ProduceAcks, type Producer } from '@platformatic/kafka'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { Target } from '../relay/target.ts'
import type { KafkaPlan } from './kafka-options.ts'
import { type Answers, judged, type KafkaVerdict, stored, verdictOf } from './kafka-verdict.ts'
import { type KafkaRecord, type Partitions, placeOf, roundsOf, toRecord, wrongTopic } from './record.ts'

/** Connections to the servers of a cluster. */
export class KafkaPublisher implements DestinationConnection {
  readonly #producer: Producer
  readonly #topic: Target
  /** The messages without a key of one call go to one partition of their topic, and those of the next call to the next one. */
  #turn = 0

  constructor(producer: Producer, { topic }: Pick<KafkaPlan, 'topic'>) {
    this.#producer = producer
    this.#topic = new Target('kafka.topic', topic, wrongTopic)
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const wrong = this.#topic.refusalOf(outgoing)
    if (wrong !== undefined) return wrong
    return Object.hasOwn(outgoing.headers, 'id')
      ? 'header "id": expected another name, because the id has this one'
      : undefined
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    const verdicts = signal.aborted ? undefined : await untilAborted(this.#publish(messages, signal), signal)
    return verdicts ?? messages.map(() => NO_CONFIRM)
  }

  async close(): Promise<void> {
    await this.#producer.close(true)
  }

  async #publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    const verdicts = await this.#verdictsOn(messages, signal)
    return messages.map((outgoing, at) => {
      const verdict = verdicts[at] ?? NO_CONFIRM
      return verdict.kind === 'closed' ? this.#topic.closed(outgoing, verdict.error) : verdict
    })
  }

  async #verdictsOn(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly KafkaVerdict[]> {
    const records = await this.#recordsOf(messages)
    const verdicts = new Map<KafkaRecord, KafkaVerdict>()
    for (const round of roundsOf(records.filter((record) => 'partition' in record))) {
      if (signal.aborted) break
      await this.#send(round, signal, verdicts)
    }
    return records.map((record) => ('partition' in record ? (verdicts.get(record) ?? NO_CONFIRM) : record))
  }

  /** The records of messages, or why there is none. */
  async #recordsOf(messages: readonly OutgoingMessage[]): Promise<readonly (KafkaRecord | KafkaVerdict)[]> {
    const turn = this.#turn++
    const topics = messages.map((outgoing) => this.#topic.of(outgoing))
    const names = [...new Set(topics)]
    const all = new Map(
      await Promise.all(names.map(async (topic) => [topic, await this.#partitionsOf(topic)] as const)),
    )
    return messages.map((outgoing, at) => {
      const topic = topics[at] ?? ''
      const partitions = all.get(topic) ?? NO_CONFIRM
      if ('kind' in partitions) return partitions
      const record = toRecord(outgoing, topic, partitions, turn)
      return partitions.led.includes(record.partition) ? record : noLeaderOf(record)
    })
  }

  /** The partitions of a topic, as the client knows them or asks for them every few seconds, and at once if one has no leader. */
  async #partitionsOf(topic: string): Promise<Partitions | KafkaVerdict> {
    try {
      const { topics, brokers } = await this.#producer.metadata({ topics: [topic] })
      const { partitions, partitionsCount: count } = topics.get(topic) ?? { partitions: [], partitionsCount: 0 }
      const led = [...partitions.keys()].filter((partition) => brokers.has(partitions[partition]?.leader ?? -1))
      if (led.length < count) this.#producer.clearMetadata()
      return count === 0 ? NO_CONFIRM : { count, led }
    } catch (error) {
      return verdictOf(error)
    }
  }

  /** Sends records in one request to each server, and notes their verdicts. */
  async #send(
    records: readonly KafkaRecord[],
    signal: AbortSignal,
    verdicts: Map<KafkaRecord, KafkaVerdict>,
  ): Promise<void> {
    const { byPlace, others } = await this.#answersTo(records)
    const again: KafkaRecord[] = []
    for (const [place, sent] of Map.groupBy(records, placeOf)) {
      const verdict = byPlace.get(place) ?? others
      // Of several records the partition has stored none, whichever it refuses: then each goes alone.
      if (verdict.kind === 'refused' && sent.length > 1) again.push(...sent)
      else for (const record of sent) verdicts.set(record, verdict)
    }
    for (const record of again) {
      if (signal.aborted) return
      await this.#send([record], signal, verdicts)
    }
  }

  async #answersTo(records: readonly KafkaRecord[]): Promise<Answers> {
    try {
      // Here, because the client does not look at what its options say of acks.
      return stored(await this.#producer.send({ messages: [...records], acks: ProduceAcks.ALL }))
    } catch (error) {
      // The partitions may have other leaders now.
      this.#producer.clearMetadata()
      return judged(error)
    }
  }
}

/** It is left to the next try, and so are the messages behind it of its key. */
function noLeaderOf(record: KafkaRecord): Verdict {
  return { kind: 'unavailable', error: `LEADER_NOT_AVAILABLE: the partition ${placeOf(record)} has no leader` }
}

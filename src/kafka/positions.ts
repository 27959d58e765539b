import {
  type ClusterMetadata,
  FetchIsolationLevels,
  type FetchOptions,
  findErrorBy,
  ListOffsetTimestamps,
} from '@platformatic/kafka'
import type { Assignment, GroupMember } from './group-member.ts'
import type { KafkaClient } from './kafka-options.ts'
import { placeOf } from './record.ts'

type FetchTopic = FetchOptions<Buffer, Buffer, Buffer, Buffer>['topics'][number]

/** A partition of a topic. */
export interface Place {
  readonly topic: string
  readonly partition: number
}

/** Where a member goes on in each partition of its assignment. */
export class Positions {
  readonly assignment: Assignment
  readonly #offsets: Map<string, bigint>

  private constructor(assignment: Assignment, offsets: Map<string, bigint>) {
    this.assignment = assignment
    this.#offsets = offsets
  }

  /** The offsets of the group, or the oldest record of a partition where it has none. */
  static async of(assignment: Assignment, member: GroupMember, reader: KafkaClient): Promise<Positions> {
    if (assignment.topics.length === 0) return new Positions(assignment, new Map())
    const committed = await member.committed(assignment)
    const places = placesIn(assignment).map((place) => ({
      place,
      offset: committed.get(place.topic)?.[place.partition] ?? -1n,
    }))
    const without = places.filter(({ offset }) => offset < 0n).map(({ place }) => place)
    const oldest = await limitsOf(reader, without, ListOffsetTimestamps.EARLIEST)
    const known = places
      .filter(({ offset }) => offset >= 0n)
      .map(({ place, offset }) => [placeOf(place), offset] as const)
    return new Positions(assignment, new Map([...known, ...oldest]))
  }

  at(place: Place): bigint {
    return this.#offsets.get(placeOf(place)) ?? 0n
  }

  set(place: Place, offset: bigint): void {
    this.#offsets.set(placeOf(place), offset)
  }

  /** What to fetch from each server that leads some of the partitions. */
  byNode({ topics }: ClusterMetadata): ReadonlyMap<number, FetchTopic[]> {
    const led = placesIn(this.assignment).map((place) => ({ place, led: topics.get(place.topic) }))
    const byLeader = Map.groupBy(
      led,
      ({ place, led: topic }) => topic?.partitions[place.partition]?.leader ?? NO_LEADER,
    )
    return new Map(
      [...byLeader].map(([node, those]) => {
        const byTopic = Map.groupBy(those, ({ led: topic }) => topic?.id ?? '')
        return [
          node,
          [...byTopic].map(([topicId, parts]) => ({
            topicId,
            partitions: parts.map(({ place }) => this.#request(place)),
          })),
        ]
      }),
    )
  }

  /**
   * Goes on with the oldest record in each partition that does not have the record at its position: it has been removed, or
   * the topic has been made anew.
   *
   * @throws the error, if there is no such partition
   */
  async toOldest(reader: KafkaClient, error: unknown): Promise<void> {
    const places = placesIn(this.assignment)
    const [oldest, newest] = await Promise.all([
      limitsOf(reader, places, ListOffsetTimestamps.EARLIEST),
      limitsOf(reader, places, ListOffsetTimestamps.LATEST),
    ])
    const moved = [...oldest].filter(([name, first]) => {
      const offset = this.#offsets.get(name) ?? first
      return offset < first || offset > (newest.get(name) ?? offset)
    })
    if (moved.length === 0) throw error
    for (const [name, first] of moved) this.#offsets.set(name, first)
  }

  #request(place: Place): FetchTopic['partitions'][number] {
    const unknownEpochs = { currentLeaderEpoch: -1, lastFetchedEpoch: -1 }
    return { partition: place.partition, fetchOffset: this.at(place), partitionMaxBytes: MOST_BYTES, ...unknownEpochs }
  }
}

/** Whether a partition does not have the record that it was asked for. */
export function isOutOfRange(error: unknown): boolean {
  return error instanceof Error && findErrorBy(error, 'apiId', 'OFFSET_OUT_OF_RANGE') !== null
}

function placesIn({ topics }: Assignment): readonly Place[] {
  return topics.flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition })))
}

/** The oldest or the next offset of partitions, by their place. */
async function limitsOf(
  reader: KafkaClient,
  places: readonly Place[],
  timestamp: bigint,
): Promise<ReadonlyMap<string, bigint>> {
  if (places.length === 0) return new Map()
  const byTopic = Map.groupBy(places, ({ topic }) => topic)
  const offsets = await reader.listOffsets({
    topics: [...byTopic.keys()],
    partitions: Object.fromEntries(
      [...byTopic].map(([topic, those]) => [topic, those.map(({ partition }) => partition)]),
    ),
    timestamp,
    // Otherwise the newest is the first one of an open transaction.
    isolationLevel: FetchIsolationLevels.READ_UNCOMMITTED,
  })
  return new Map(places.map((place) => [placeOf(place), offsets.get(place.topic)?.[place.partition] ?? 0n]))
}

/** The number of no server. */
const NO_LEADER = -1
/** Of one partition in an answer; a larger batch of records comes alone. */
const MOST_BYTES = 2 ** 20

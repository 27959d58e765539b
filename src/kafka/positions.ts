import {
  type ClusterMetadata,
  FetchIsolationLevels,
  type FetchOptions,
  findErrorBy,
  ListOffsetTimestamps,
} from '@platformatic/kafka'
import type { Assignment } from './assignment.ts'
import type { GroupMember } from './group-member.ts'
import type { KafkaClient } from './kafka-options.ts'
import { type Place, placeOf } from './record.ts'

type FetchTopic = FetchOptions<Buffer, Buffer, Buffer, Buffer>['topics'][number]

/** Where a member goes on in each partition of its assignment. */
export class Positions {
  readonly #assignment: Assignment
  readonly #offsets: Map<string, bigint>

  private constructor(assignment: Assignment, offsets: Map<string, bigint>) {
    this.#assignment = assignment
    this.#offsets = offsets
  }

  /** The offsets of the group. */
  static async of(assignment: Assignment, member: GroupMember): Promise<Positions> {
    const { places } = assignment
    const committed = places.length === 0 ? undefined : await member.committed(assignment)
    const offsets = places.map(
      (place) => [placeOf(place), committed?.get(place.topic)?.[place.partition] ?? -1n] as const,
    )
    return new Positions(assignment, new Map(offsets.filter(([, offset]) => offset >= 0n)))
  }

  /** Undefined: it is in no partition of the assignment, or the group has none and {@link begin} has not found one. */
  at(place: Place): bigint | undefined {
    return this.#offsets.get(placeOf(place))
  }

  set(place: Place, offset: bigint): void {
    this.#offsets.set(placeOf(place), offset)
  }

  /** Begins with the oldest record of those of some partitions in which the group has no offset. */
  async begin(reader: KafkaClient, places: readonly Place[]): Promise<void> {
    const without = places.filter((place) => this.at(place) === undefined)
    const oldest = await limitsOf(reader, without, ListOffsetTimestamps.EARLIEST)
    for (const [name, first] of oldest) this.#offsets.set(name, first)
  }

  /** What to fetch from each server that leads some of the partitions. */
  byNode(metadata: ClusterMetadata): ReadonlyMap<number, FetchTopic[]> {
    const places = ledIn(metadata, this.#assignment.places)
    const byLeader = Map.groupBy(places, (place) => leaderOf(metadata, place))
    const topicsOf = (those: readonly Place[]) => {
      const byTopic = Map.groupBy(those, ({ topic }) => metadata.topics.get(topic)?.id ?? '')
      return [...byTopic].map(([topicId, parts]) => ({
        topicId,
        partitions: parts.flatMap((one) => this.#request(one)),
      }))
    }
    return new Map([...byLeader].map(([node, those]) => [node, topicsOf(those)]))
  }

  /**
   * Goes on with the oldest record in each partition that does not have the record at its position: it has been removed, or
   * the topic has been made anew.
   *
   * @throws the error, if there is no such partition
   */
  async toOldest(reader: KafkaClient, metadata: ClusterMetadata, error: unknown): Promise<void> {
    const places = ledIn(metadata, this.#assignment.places)
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

  #request(place: Place): FetchTopic['partitions'] {
    const fetchOffset = this.at(place)
    if (fetchOffset === undefined) return []
    const unknownEpochs = { currentLeaderEpoch: -1, lastFetchedEpoch: -1 }
    return [{ partition: place.partition, fetchOffset, partitionMaxBytes: MOST_BYTES, ...unknownEpochs }]
  }
}

/** Those of some partitions that have a leader. */
export function ledIn(metadata: ClusterMetadata, places: readonly Place[]): readonly Place[] {
  return places.filter((place) => metadata.brokers.has(leaderOf(metadata, place)))
}

/** Whether a partition does not have the record that it was asked for. */
export function isOutOfRange(error: unknown): boolean {
  return error instanceof Error && findErrorBy(error, 'apiId', 'OFFSET_OUT_OF_RANGE') !== null
}

function leaderOf({ topics }: ClusterMetadata, { topic, partition }: Place): number {
  return topics.get(topic)?.partitions[partition]?.leader ?? NO_LEADER
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

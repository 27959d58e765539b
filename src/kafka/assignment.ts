import type { CommitOptionsPartition, GroupAssignment } from '@platformatic/kafka'
import { type Place, placeOf } from './record.ts'

/** The partitions of a member, from one time that the group shares them out to the next. No two are the same object. */
export class Assignment {
  readonly places: readonly Place[]
  readonly topics: readonly GroupAssignment[]
  /** Whether the member shares out. */
  readonly isLeader: boolean
  readonly #generation: number
  /** The generation since which each partition has been of the member without a break. */
  readonly #since: ReadonlyMap<string, number>

  constructor({ assignments = [], generationId = 0, isLeader = false }: Joined, previous: Assignment | undefined) {
    this.topics = assignments.filter(({ partitions }) => partitions.length > 0)
    this.places = this.topics.flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition })))
    this.isLeader = isLeader
    this.#generation = generationId
    // In a generation that the member has missed, another one may have had its partitions.
    const before = previous !== undefined && previous.#generation === generationId - 1 ? previous.#since : undefined
    this.#since = new Map(this.places.map(placeOf).map((place) => [place, before?.get(place) ?? generationId]))
  }

  /** Of offsets that were received in an assignment those of partitions that no other member can have had since. */
  heldSince(received: Assignment, offsets: readonly CommitOptionsPartition[]): CommitOptionsPartition[] {
    return offsets.filter((offset) => (this.#since.get(placeOf(offset)) ?? Infinity) <= received.#generation)
  }
}

/** What the client tells of a member that has joined. */
interface Joined {
  readonly assignments?: readonly GroupAssignment[]
  readonly generationId?: number
  readonly isLeader?: boolean
}

import type { ClusterMetadata } from '@platformatic/kafka'

/** How many partitions each of some topics had when it was last looked. */
export class PartitionCounts {
  readonly #topics: readonly string[]
  #counts: readonly number[] = []

  constructor(topics: readonly string[]) {
    this.#topics = topics
  }

  /** Looks, and returns whether partitions have been added. */
  areMore({ topics }: ClusterMetadata): boolean {
    const before = this.#counts
    this.#counts = this.#topics.map((topic) => topics.get(topic)?.partitionsCount ?? 0)
    return this.#counts.some((count, at) => count > (before[at] ?? count))
  }
}

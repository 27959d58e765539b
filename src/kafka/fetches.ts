import type { ClusterMetadata } from '@platformatic/kafka'
import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { toError } from '../errors.ts'
import { Election } from './election.ts'
import type { KafkaClient } from './kafka-options.ts'
import { isOutOfRange } from './positions.ts'
import type { Share } from './share.ts'

/** How long a server waits for a record before it answers that there is none: as long as other clients let it. */
export const FETCH_WAIT_MS = 500

/** The fetches that are under way: at most one from each server. */
export class Fetches {
  readonly #reader: KafkaClient
  readonly #elections = new Map<number, Election>()
  readonly #busy = new Set<number>()
  #end = Promise.withResolvers<void>()

  constructor(reader: KafkaClient) {
    this.#reader = reader
  }

  /** Resolves when a fetch ends from now on, or by {@link endWait}. @throws what it has failed for, if no election explains that */
  nextEnd(): Promise<void> {
    this.#end = Promise.withResolvers()
    // A fetch may fail before anything waits for this, and where nothing does, the next one fails as well.
    ignoreRejection(this.#end.promise)
    return this.#end.promise
  }

  endWait(): void {
    this.#end.resolve()
  }

  /** Begins to fetch the partitions of a share from each server that leads some of them, and has no fetch under way. */
  start(share: Share, metadata: ClusterMetadata): void {
    const byNode = share.positions.byNode(metadata)
    // Others lead the partitions of such a server now.
    for (const node of this.#elections.keys()) if (!byNode.has(node)) this.#elections.delete(node)
    for (const [node, topics] of byNode) {
      if (this.#busy.has(node)) continue
      const request = { node, topics, maxWaitTime: FETCH_WAIT_MS, maxBytes: MOST_BYTES }
      void this.#run(node, () => this.#fetch(share, request, metadata))
    }
  }

  async #run(node: number, fetch: () => Promise<void>): Promise<void> {
    const election = this.#elections.get(node) ?? new Election(this.#reader)
    this.#elections.set(node, election)
    this.#busy.add(node)
    try {
      await election.lets(fetch)
      this.#end.resolve()
    } catch (error) {
      this.#end.reject(toError(error))
    } finally {
      this.#busy.delete(node)
    }
  }

  async #fetch(share: Share, request: Parameters<KafkaClient['fetch']>[0], metadata: ClusterMetadata): Promise<void> {
    try {
      const { responses } = await this.#reader.fetch(request)
      const names = new Map([...metadata.topics].map(([name, { id }]) => [id, name]))
      for (const { topicId, partitions } of responses)
        for (const data of partitions)
          share.add({ topic: names.get(topicId) ?? '', partition: data.partitionIndex }, data)
    } catch (error) {
      if (!isOutOfRange(error)) throw error
      await share.positions.toOldest(this.#reader, metadata, error)
    }
  }
}

/** Of one answer to a fetch. */
const MOST_BYTES = 8 * 2 ** 20

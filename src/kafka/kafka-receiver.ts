import { type ClusterMetadata, NetworkError } from '@platformatic/kafka'
import { ignoreRejection } from '../basics/ignore-rejection.ts'
import { untilAborted } from '../basics/until-aborted.ts'
import { toError } from '../errors.ts'
import type { ReceivedMessage, ReceiverConnection } from '../inbox/receiver.ts'
import { Unacked } from '../inbox/unacked.ts'
import { Election } from './election.ts'
import { type FetchedRecord, offsetsOf, recordsIn } from './fetched.ts'
import type { Assignment, GroupMember } from './group-member.ts'
import { failureOf } from './kafka-failure.ts'
import type { KafkaClient } from './kafka-options.ts'
import { isOutOfRange, Positions } from './positions.ts'
import { receivedOf } from './received.ts'

/** How long a server waits for a record before it answers that there is none. */
export const FETCH_WAIT_MS = 1_000

/** Connections to the servers of a cluster: those of a member of a group, and those by which it reads its partitions. */
export class KafkaReceiver implements ReceiverConnection {
  readonly #member: GroupMember
  readonly #reader: KafkaClient
  readonly #topics: readonly string[]
  /** What has been fetched, and `receive` has not returned yet. */
  #ready: FetchedRecord[] = []
  /** What `receive` has returned of the assignment, and is not acked. */
  readonly #out = new Unacked<FetchedRecord>()
  /** Where to go on in the partitions of the assignment. */
  #positions: Positions | undefined
  /** How many partitions each topic has. */
  #counts: readonly number[] = []
  /** The servers that have a fetch under way. */
  readonly #fetching = new Set<number>()
  /** What has failed since it last succeeded: a step, or the fetches from servers. */
  readonly #elections = new Map<number | 'step', Election>()
  #step: Promise<void> | undefined
  /** Of the step: it ends with an answer to a fetch, or another assignment. */
  #stepEnd = Promise.withResolvers<void>()
  #closed: Promise<void> | undefined

  constructor(member: GroupMember, reader: KafkaClient, topics: readonly string[]) {
    this.#member = member
    this.#reader = reader
    this.#topics = topics
    member.onChange = () => this.#stepEnd.resolve()
  }

  get waitMs(): number {
    return this.#member.waitMs
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    if (this.#closed !== undefined) throw new Error('connection closed')
    // What was fetched before the group shared out anew comes again, perhaps to another process.
    while ((this.#ready.length === 0 || !this.#isCurrent) && !signal.aborted) {
      // A step that was waited for in vain goes on, and may fetch records yet.
      this.#step ??= this.#newStep()
      await untilAborted(this.#step, signal)
    }
    return this.#isCurrent ? this.#ready.splice(0, most).map((record) => this.#given(record)) : []
  }

  /**
   * Commits the offsets up to which all is acked: an offset stands for all records before it. Nothing is committed of partitions
   * that another member has now: it gets the messages again.
   */
  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    const acked = this.#out.of(messages)
    this.#out.forget(messages)
    try {
      await this.#member.commit(offsetsOf(acked, [...this.#out.values()]))
    } catch (error) {
      throw failureOf(error)
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const left = this.#member.leave()
    await this.#reader.close(true).catch(() => undefined)
    await left
  }

  /** Whether the positions are those of its assignment. */
  get #isCurrent(): boolean {
    const { assignment } = this.#member
    return assignment !== undefined && assignment === this.#positions?.assignment
  }

  #newStep(): Promise<void> {
    const step = this.#advance().finally(() => {
      this.#step = undefined
    })
    // Where no `receive` waits for it, the next one meets the same failure.
    ignoreRejection(step)
    return step
  }

  async #advance(): Promise<void> {
    try {
      this.#stepEnd = Promise.withResolvers()
      // A fetch of the step before may fail before anything waits for this.
      ignoreRejection(this.#stepEnd.promise)
      const assignment = await this.#member.ready()
      await this.#throughElections('step', () => this.#begin(assignment))
      // A member without partitions has no fetch, and looks for more.
      await untilAborted(this.#stepEnd.promise, AbortSignal.timeout(IDLE_MS))
    } catch (error) {
      throw failureOf(error)
    }
  }

  async #begin(assignment: Assignment): Promise<void> {
    const metadata = await this.#reader.metadata({ topics: [...this.#topics] })
    this.#lookForMore(assignment, metadata)
    this.#startFetches(await this.#positionsIn(assignment), metadata)
  }

  /** If it fails for a reason that an election explains, it is left to the next step. */
  async #throughElections(work: number | 'step', begin: () => Promise<void>): Promise<void> {
    try {
      await begin()
      this.#elections.delete(work)
    } catch (error) {
      if (this.#closed !== undefined) throw error
      const election = this.#elections.get(work) ?? new Election(this.#reader)
      this.#elections.set(work, election)
      await election.outlast(error)
      this.#stepEnd.resolve()
    }
  }

  /** Partitions that have been added to a topic belong to no member until the leader shares them out. */
  #lookForMore({ isLeader }: Assignment, { topics }: ClusterMetadata): void {
    const counts = this.#topics.map((topic) => topics.get(topic)?.partitionsCount ?? 0)
    const areMore = counts.some((count, at) => count > (this.#counts[at] ?? count))
    this.#counts = counts
    if (areMore && isLeader) this.#member.shareOut()
  }

  async #positionsIn(assignment: Assignment): Promise<Positions> {
    if (this.#positions?.assignment !== assignment) {
      const positions = await Positions.of(assignment, this.#member, this.#reader)
      this.#ready = []
      this.#out.clear()
      this.#positions = positions
    }
    return this.#positions
  }

  #startFetches(positions: Positions, metadata: ClusterMetadata): void {
    const byNode = positions.byNode(metadata)
    // Others lead the partitions of such a server now.
    for (const work of this.#elections.keys()) if (work !== 'step' && !byNode.has(work)) this.#elections.delete(work)
    for (const [node, topics] of byNode) {
      if (this.#fetching.has(node)) continue
      this.#fetching.add(node)
      const request = { node, topics, maxWaitTime: FETCH_WAIT_MS, maxBytes: MOST_BYTES }
      this.#throughElections(node, () => this.#fetch(positions, request, metadata))
        .finally(() => this.#fetching.delete(node))
        .then(
          () => this.#stepEnd.resolve(),
          (error: unknown) => this.#stepEnd.reject(toError(error)),
        )
    }
  }

  async #fetch(
    positions: Positions,
    request: Parameters<KafkaClient['fetch']>[0],
    { topics, brokers }: ClusterMetadata,
  ): Promise<void> {
    if (!brokers.has(request.node)) throw new NetworkError('A partition has no leader.')
    try {
      const { responses } = await this.#reader.fetch(request)
      // The group has shared out anew meanwhile.
      if (positions !== this.#positions) return
      const names = new Map([...topics].map(([name, { id }]) => [id, name]))
      for (const { topicId, partitions } of responses) {
        for (const data of partitions) {
          const place = { topic: names.get(topicId) ?? '', partition: data.partitionIndex }
          const { records, next } = recordsIn(place, data, positions.at(place))
          // Not as arguments: there may be more than a call takes.
          this.#ready = this.#ready.concat(records)
          positions.set(place, next)
        }
      }
    } catch (error) {
      if (!isOutOfRange(error)) throw error
      await positions.toOldest(this.#reader, error)
    }
  }

  #given(record: FetchedRecord): ReceivedMessage {
    const given = receivedOf(record)
    this.#out.set(given, record)
    return given
  }
}

/** Of one answer to a fetch. */
const MOST_BYTES = 8 * 2 ** 20
/** When a member without partitions looks for more. */
const IDLE_MS = 30_000

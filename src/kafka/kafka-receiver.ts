import { NetworkError } from '@platformatic/kafka'
import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { ReceivedMessage, ReceiverConnection } from '../inbox/receiver.ts'
import type { Assignment } from './assignment.ts'
import { Election } from './election.ts'
import { Fetches } from './fetches.ts'
import type { GroupMember } from './group-member.ts'
import { failureOf } from './kafka-failure.ts'
import type { KafkaClient } from './kafka-options.ts'
import { PartitionCounts } from './partition-counts.ts'
import { ledIn, Positions } from './positions.ts'
import { Share } from './share.ts'

/** Connections to the servers of a cluster: those of a member of a group, and those by which it reads its partitions. */
export class KafkaReceiver implements ReceiverConnection {
  readonly #member: GroupMember
  readonly #reader: KafkaClient
  readonly #topics: readonly string[]
  readonly #counts: PartitionCounts
  readonly #fetches: Fetches
  readonly #election: Election
  #share: Share | undefined
  /** Whether each partition had a leader when it was last asked. */
  #areLed = true
  #step: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor(member: GroupMember, reader: KafkaClient, topics: readonly string[]) {
    this.#member = member
    this.#reader = reader
    this.#topics = topics
    this.#counts = new PartitionCounts(topics)
    this.#fetches = new Fetches(reader)
    this.#election = new Election(reader)
    member.onChange = () => this.#fetches.endWait()
  }

  get waitMs(): number {
    return this.#member.waitMs
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    if (this.#closed !== undefined) throw new Error('connection closed')
    while (!this.#current?.hasMessages && !signal.aborted) {
      // A step that was waited for in vain goes on, and may fetch records yet.
      this.#step ??= this.#newStep()
      await untilAborted(this.#step, signal)
    }
    return this.#current?.take(most) ?? []
  }

  /**
   * Commits the offsets up to which all is acked: an offset stands for all records before it. Nothing is committed of partitions
   * that another member has, or may have had meanwhile: the messages come again.
   */
  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    if (this.#share === undefined) return
    const { assignment } = this.#share
    try {
      await this.#member.commit(this.#share.acked(messages), assignment)
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

  /** Its share, unless the group shares out anew. */
  get #current(): Share | undefined {
    return this.#share?.assignment === this.#member.assignment ? this.#share : undefined
  }

  #newStep(): Promise<void> {
    const step = this.#advance().finally(() => {
      this.#step = undefined
    })
    // Where no `receive` waits for it, the next one meets the same failure.
    ignoreRejection(step)
    return step
  }

  /** Until a fetch has ended, or the assignment is another one. */
  async #advance(): Promise<void> {
    try {
      const end = this.#fetches.nextEnd()
      const assignment = await this.#member.ready()
      const isBegun = await this.#election.lets(() => this.#begin(assignment))
      // A member without partitions has no fetch, and looks for more.
      if (isBegun) await untilAborted(end, AbortSignal.timeout(IDLE_MS))
    } catch (error) {
      throw failureOf(error)
    }
  }

  async #begin(assignment: Assignment): Promise<void> {
    const metadata = await this.#reader.metadata({ topics: [...this.#topics], forceUpdate: !this.#areLed })
    // Partitions that have been added belong to no member until the leader shares them out.
    if (this.#counts.areMore(metadata) && assignment.isLeader) this.#member.shareOut()
    if (this.#share?.assignment !== assignment)
      this.#share = new Share(assignment, await Positions.of(assignment, this.#member))
    const led = ledIn(metadata, assignment.places)
    this.#areLed = led.length === assignment.places.length
    if (led.length === 0 && !this.#areLed) throw new NetworkError('No partition of this process has a leader.')
    await this.#share.positions.begin(this.#reader, led)
    this.#fetches.start(this.#share, metadata)
  }
}

/** When a member without partitions looks for more. */
const IDLE_MS = 30_000

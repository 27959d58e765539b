import { type CommitOptionsPartition, findErrorBy } from '@platformatic/kafka'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { toError } from '../errors.ts'
import { Assignment } from './assignment.ts'
import { Election } from './election.ts'
import type { KafkaClient } from './kafka-options.ts'

/** A member of a consumer group. The client gives signs of life, and joins again when the group shares its partitions out anew. */
export class GroupMember {
  readonly #client: KafkaClient
  readonly #sessionMs: number
  readonly #startedAtMs = performance.now()
  /** Called when it has another assignment, or none any more. */
  onChange: () => void = () => undefined
  #assignment: Assignment | undefined
  #changed = Promise.withResolvers<void>()
  #ended: Error | undefined

  constructor(client: KafkaClient, sessionMs: number) {
    this.#client = client
    this.#sessionMs = sessionMs
    client.on('consumer:group:join', (joined) => {
      this.#assignment = new Assignment(joined, this.#assignment)
      this.#tell()
    })
    // The client has tried once to join again.
    client.on('error', (error) => void this.#joinAgain(error))
    client.on('consumer:heartbeat:stalled', ({ lastError }) =>
      this.#end(lastError ?? new Error('no sign of life from the group')),
    )
  }

  /** Its assignment now. Undefined: it has none, or the group shares its partitions out anew. */
  get assignment(): Assignment | undefined {
    return this.#client.isActive() ? this.#assignment : undefined
  }

  /** How long the group may wait for a member that was cut off, before this one has its first assignment. */
  get waitMs(): number {
    return this.#assignment === undefined ? Math.max(0, this.#startedAtMs + this.#sessionMs - performance.now()) : 0
  }

  /** Resolves with its first assignment. @throws what does not pass by itself; later too, {@link ready} throws it */
  async join(): Promise<void> {
    try {
      const election = new Election(this.#client)
      for (let tries = 1; ; ) {
        try {
          await this.#client.joinGroup({})
          return
        } catch (error) {
          if (this.#ended !== undefined) throw error
          if (!isOfGroup(error)) await election.outlast(error)
          else if (tries++ === TRIES) throw error
        }
      }
    } catch (error) {
      this.#end(toError(error))
      throw error
    }
  }

  /** Waits for its assignment. @throws if it is no member any more */
  async ready(): Promise<Assignment> {
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended
      const { assignment } = this
      if (assignment !== undefined) return assignment
      await this.#changed.promise
    }
  }

  /** The offsets of the group, by topic and partition; less than 0: it has none. */
  async committed({ topics }: Assignment): Promise<ReadonlyMap<string, readonly bigint[]>> {
    return this.#client.listCommittedOffsets({ topics: topics.map((one) => ({ ...one })) })
  }

  /**
   * Commits those offsets, received in an assignment, that are of its partitions still: another member may have committed later ones.
   * While the group shares out anew it commits none, and the messages come again. It waits for another coordinator.
   *
   * @throws if the group does not answer
   */
  async commit(offsets: readonly CommitOptionsPartition[], received: Assignment): Promise<void> {
    const election = new Election(this.#client)
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended
      const owned = this.assignment?.heldSince(received, offsets) ?? []
      if (owned.length === 0) return
      try {
        await this.#client.commit({ offsets: owned })
        return
      } catch (error) {
        if (isOfGroup(error)) return
        await election.outlast(error)
      }
    }
  }

  /** Has the group share its partitions out, because there are more of them. */
  shareOut(): void {
    this.#client.clearMetadata()
    // What it throws, `ready` throws too.
    this.join().catch(() => undefined)
  }

  /** Leaves the group, if that answers in time. */
  async leave(): Promise<void> {
    this.#end(new Error('connection closed'))
    const left = this.#client.close(true).catch(() => undefined)
    await untilAborted(left, AbortSignal.timeout(GOODBYE_MS))
    // Requests that wait for an answer would keep the process alive.
    await this.#client.connections.close().catch(() => undefined)
  }

  async #joinAgain(error: Error): Promise<void> {
    try {
      if (!isOfGroup(error)) await new Election(this.#client).outlast(error)
      await this.join()
    } catch (lasting) {
      this.#end(toError(lasting))
    }
  }

  #end(error: Error): void {
    this.#ended ??= error
    this.#tell()
  }

  #tell(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
    this.onChange()
  }
}

/** Whether the group only shares its partitions out anew, or does not know the member any more: it may join again. */
function isOfGroup(error: unknown): boolean {
  return error instanceof Error && findErrorBy(error, 'needsRejoin', true) !== null
}

/** How often a member tries to join, when others join or leave at the same time. */
const TRIES = 5
/** How long the server may take to say goodbye. */
const GOODBYE_MS = 500

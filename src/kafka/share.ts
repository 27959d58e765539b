import type { CommitOptionsPartition } from '@platformatic/kafka'
import type { ReceivedMessage } from '../inbox/receiver.ts'
import { Unacked } from '../inbox/unacked.ts'
import type { Assignment } from './assignment.ts'
import { type FetchedRecord, offsetsOf, type PartitionData, recordsIn } from './fetched.ts'
import type { Positions } from './positions.ts'
import { receivedOf } from './received.ts'
import type { Place } from './record.ts'

/**
 * What a member has received in an assignment. With the next assignment it begins anew: what was read ahead comes again, perhaps to
 * another process.
 */
export class Share {
  readonly assignment: Assignment
  readonly positions: Positions
  /** What has been fetched, and is not taken yet. */
  #ready: FetchedRecord[] = []
  /** What has been taken, and is not acked. */
  readonly #out = new Unacked<FetchedRecord>()

  constructor(assignment: Assignment, positions: Positions) {
    this.assignment = assignment
    this.positions = positions
  }

  get hasMessages(): boolean {
    return this.#ready.length > 0
  }

  /** Adds what an answer has of a partition. */
  add(place: Place, data: PartitionData): void {
    const position = this.positions.at(place)
    if (position === undefined) return
    const { records, next } = recordsIn(place, data, position)
    // Not as arguments: there may be more than a call takes.
    this.#ready = this.#ready.concat(records)
    this.positions.set(place, next)
  }

  take(most: number): readonly ReceivedMessage[] {
    return this.#ready.splice(0, most).map((record) => {
      const message = receivedOf(record)
      this.#out.set(message, record)
      return message
    })
  }

  /** Forgets messages that are acked, and returns the offsets to commit: up to which all is acked. */
  acked(messages: readonly ReceivedMessage[]): readonly CommitOptionsPartition[] {
    const records = this.#out.of(messages)
    this.#out.forget(messages)
    return offsetsOf(records, [...this.#out.values()])
  }
}

import { findErrorBy, NetworkError } from '@platformatic/kafka'
import { pause } from '../basics/time/pause.ts'
import type { KafkaClient } from './kafka-options.ts'

/**
 * Has work that fails while the cluster elects a leader or a coordinator tried again. The end of the connection would cost more:
 * all members of the group would share out anew, and none of them would receive meanwhile.
 */
export class Election {
  readonly #client: KafkaClient
  #sinceMs: number | undefined

  constructor(client: KafkaClient) {
    this.#client = client
  }

  /** Does work. Returns whether it has succeeded; otherwise {@link outlast} has waited, and it may be tried again. */
  async lets(work: () => Promise<void>): Promise<boolean> {
    try {
      await work()
      this.#sinceMs = undefined
      return true
    } catch (error) {
      await this.outlast(error)
      return false
    }
  }

  /**
   * Waits for a moment after a failure, and asks the cluster who leads now.
   *
   * @throws the error, if it does not pass by itself, or the work has failed for too long; another one, if no server answers
   */
  async outlast(error: unknown): Promise<void> {
    this.#sinceMs ??= performance.now()
    const isTooLate = performance.now() - this.#sinceMs > ELECTION_MS
    if (this.#client.closed || !passes(error) || isTooLate) throw error
    await pause(PAUSE_MS)
    try {
      await this.#client.metadata({ topics: this.#client.topics.current, forceUpdate: true })
    } catch (unknown) {
      // Otherwise a server has answered that a topic has no leader.
      if (isOfNetwork(unknown) || !passes(unknown)) throw unknown
    }
  }
}

/** Whether another server, or the same one later, may answer otherwise. */
function passes(error: unknown): boolean {
  return isOfNetwork(error) || (has(error, 'canRetry', true) && !has(error, 'canRetry', false))
}

/** Also where an answer has not come in time. */
function isOfNetwork(error: unknown): boolean {
  return has(error, 'code', NetworkError.code) && !has(error, 'closed', true)
}

/** Whether it, or one of those that it is made of, has this. */
function has(error: unknown, property: string, value: unknown): boolean {
  return error instanceof Error && findErrorBy(error, property, value) !== null
}

/** As long as a cluster takes to notice that a server has died, by default nine seconds, and to elect others. */
const ELECTION_MS = 15_000
const PAUSE_MS = 200

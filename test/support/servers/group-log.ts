import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** How far the members of the only group of a mock cluster are, by the cluster's log. */
export class GroupLog {
  #state = 'Empty'
  /** Who has asked to join the round to come, and how many the last round has. */
  #joined = 0
  #members = 0
  #generation = 0
  /** Members that have asked for their shares in the last round. */
  #shares = 0
  readonly #listeners = new Set<() => void>()

  constructor(log: Readable) {
    createInterface(log).on('line', (line) => {
      this.#read(line)
      for (const listener of this.#listeners) listener()
    })
  }

  /** Members that have asked to join and wait for an answer. */
  get joined(): number {
    return this.#joined
  }

  /** The leader is not to ask for its share yet: the cluster refuses the members that ask behind it, which a real one does not. */
  get isTooEarlyForLeader(): boolean {
    return this.#state === 'Joining' ? this.#joined > 1 : this.#state === 'Syncing' && this.#shares < this.#members - 1
  }

  /** Resolves when it is time for the leader of a round, or that round is over. */
  othersOf(generation: number): Promise<void> {
    return this.until(
      () => this.#generation > generation || (this.#generation === generation && !this.isTooEarlyForLeader),
    )
  }

  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.listen(() => {
        if (!condition()) return
        stop()
        resolve()
      })
    })
  }

  /** Calls at once, and with each line of the log. Returns what ends that. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    queueMicrotask(listener)
    return () => this.#listeners.delete(listener)
  }

  #read(line: string): void {
    const [, state, why] = /changing state \w+ -> (\w+): (.*)/.exec(line) ?? []
    const [, members, generation] = /with (\d+) member\(s\) is rebalancing: .* generation id (\d+)/.exec(line) ?? []
    if (state !== undefined) this.#change(state, why === 'member join' ? 1 : 0)
    else if (generation !== undefined) this.#begin(Number(generation), Number(members))
    else if (/Received JoinGroupRequest/.test(line) && this.#state === 'Joining') this.#joined += 1
    else if (/Received SyncGroupRequest/.test(line)) this.#shares += 1
  }

  #change(state: string, joined: number): void {
    this.#state = state
    this.#joined = state === 'Joining' ? joined : 0
  }

  #begin(generation: number, members: number): void {
    this.#generation = generation
    this.#members = members
    this.#shares = 0
  }
}

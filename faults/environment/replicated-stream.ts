import type { JetStreamManager, StreamInfo } from '@nats-io/jetstream'
import { until } from '../run/until.ts'
import type { AskNats } from './broker-books.ts'

/** A stream with a copy on each server of a cluster, and its leader on one of them. */
export class ReplicatedStream {
  readonly #ask: AskNats
  readonly name: string

  private constructor(ask: AskNats, name: string) {
    this.#ask = ask
    this.name = name
  }

  /** Makes it, with its name as its subject. */
  static async add(ask: AskNats, name: string): Promise<ReplicatedStream> {
    const add = () => ask((manager) => manager.streams.add({ name, subjects: [name], num_replicas: COPIES }))
    // Until the servers have chosen a leader there is no answer, or there are too few of them.
    await until(() => add().then(isThere, isNotThere), 'a cluster with a leader', FORMED_MS, EVERY_MS)
    return new ReplicatedStream(ask, name)
  }

  /** The number of the server that leads it. No server answers while they choose one. */
  async leader(): Promise<number> {
    const named = async () => (await this.#info())?.cluster?.leader
    return Number((await until(named, `a leader of stream ${this.name}`, CHOSEN_MS, EVERY_MS)).slice(1))
  }

  /** Resolves when all servers have all that it has: a leader that was away answers for a moment as if it still were one. */
  async whole(messages = 0): Promise<void> {
    const isWhole = async () => {
      const info = await this.#info()
      const areCurrent = info?.cluster?.replicas?.every(({ current, offline }) => current && offline !== true)
      return areCurrent === true && (info?.state.messages ?? 0) >= messages
    }
    await until(isWhole, `stream ${this.name} on all servers`, WHOLE_MS, EVERY_MS)
  }

  #info(): Promise<StreamInfo | undefined> {
    return this.#ask((manager) => manager.streams.info(this.name)).catch(() => undefined)
  }
}

/** Asks one manager until it does not answer, and the next one then. */
export function askingAnyOf(managers: readonly JetStreamManager[]): AskNats {
  let at = 0
  return async (work) => {
    const asked = at
    try {
      return await work(managers[asked]!)
    } catch (error) {
      // Others may have gone on to it already.
      if (at === asked) at = (asked + 1) % managers.length
      throw error
    }
  }
}

const isThere = () => true
const isNotThere = () => false
const COPIES = 3
const EVERY_MS = 50
const FORMED_MS = 60_000
const CHOSEN_MS = 30_000
const WHOLE_MS = 90_000

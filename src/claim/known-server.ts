/**
 * Whether the server that answers is the one of which a claimer has learned where messages begin, and which slots have
 * rows. Another may have lost its last commits: an asynchronous standby that took over, or, where commits do not wait
 * for the disk, one that has recovered. What the claimer saw to be gone is then there again.
 *
 * Each claim tells, because behind a pooler a connection outlives the server.
 */
export class KnownServer {
  /** Undefined: none has answered yet. Empty: it cannot tell. */
  #memory: string | undefined
  readonly #connections = new WeakSet<object>()

  /** Before a claim is sent. False: a server that cannot tell may be another behind a new connection. */
  meet(connection: object): boolean {
    if (this.#connections.has(connection)) return true
    this.#connections.add(connection)
    return this.#memory !== ''
  }

  /** When a claim is answered. False: what was known when it was sent does not hold for this server. */
  answered(memory: string): boolean {
    const before = this.#memory
    this.#memory = memory
    return before === undefined || before === memory
  }
}

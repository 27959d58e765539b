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
  /** Those that this claimer has met, so they are not kept with what is known of a connection. */
  readonly #connections = new WeakSet<object>()
  readonly #onAnother: () => void

  /** @param onAnother what is known does not hold any more */
  constructor(onAnother: () => void) {
    this.#onAnother = onAnother
  }

  /** The server of which something is known, to be kept with a claim until {@link answered}. */
  get memory(): string | undefined {
    return this.#memory
  }

  /** Before a claim is sent. A server that cannot tell may be another behind a new connection. */
  meet(connection: object): void {
    if (this.#connections.has(connection)) return
    this.#connections.add(connection)
    if (this.#memory === '') this.#onAnother()
  }

  /**
   * When a claim is answered. False: what was known when it was sent does not hold for this server. Several claims can be
   * in flight when the server changes: all of them are void, although only the first answer changes what we know.
   *
   * @param known {@link memory} when the claim was sent
   */
  answered(memory: string, known: string | undefined): boolean {
    const holds = known === undefined || known === memory
    const before = this.#memory
    // An answer of the server before that comes late says nothing of this one.
    if (before === memory || (known === memory && before !== undefined)) return holds
    this.#memory = memory
    if (before !== undefined) this.#onAnother()
    return holds
  }
}

/**
 * Whether the server that answers is the one from which a claimer learned where messages begin and which slots have
 * rows. Another may have lost the last commits: an asynchronous standby that took over or, where commits do not wait
 * for the disk, a recovered server. Messages that the claimer saw removed are then back.
 *
 * Each claim checks it, because behind a pooler a connection outlives the server.
 */
export class KnownServer {
  /** Undefined: none has answered yet. Empty: it cannot tell. */
  #memory: string | undefined
  /** Those of this claimer alone, so they are not kept with what is known of a connection. */
  readonly #connections = new WeakSet<object>()
  readonly #onAnother: () => void

  /** @param onAnother what was learned no longer holds */
  constructor(onAnother: () => void) {
    this.#onAnother = onAnother
  }

  /** The server that is known now, to be kept with a claim until {@link answered}. */
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
   * When a claim is answered. False: what was known when it was sent does not hold here. Several claims can be in
   * flight when the server changes: all of them are void, although only the first answer changes what we know.
   *
   * @param known {@link memory} when the claim was sent
   */
  answered(memory: string, known: string | undefined): boolean {
    const holds = known === undefined || known === memory
    const before = this.#memory
    // A late answer of the previous server says nothing of this one.
    if (before === memory || (known === memory && before !== undefined)) return holds
    this.#memory = memory
    if (before !== undefined) this.#onAnother()
    return holds
  }
}

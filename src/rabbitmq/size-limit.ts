/**
 * The largest body that the server takes. A server does not announce its `max_message_size`: it closes the channel when a
 * larger message comes, with all that is under way on it, and tells the limit in its reason.
 */
export class SizeLimit {
  #mostBytes = Number.POSITIVE_INFINITY

  /** @param reason for which a server has closed a channel */
  learnFrom(reason: string): void {
    const [, bytes] = /larger than (?:configured )?max size (\d+)/.exec(reason) ?? []
    if (bytes !== undefined) this.#mostBytes = Number(bytes)
  }

  /** Why a body can never be published; undefined: it can be, as far as is known. */
  refusalOf({ byteLength }: Uint8Array): string | undefined {
    if (byteLength <= this.#mostBytes) return undefined
    return `expected at most ${this.#mostBytes} bytes, the server's max_message_size, received ${byteLength}`
  }
}

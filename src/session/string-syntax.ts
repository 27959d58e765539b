import type pg from 'pg'

/**
 * Whether a backslash in a plain string escapes what follows it, as with `standard_conforming_strings = off`: a query
 * then holds other statements than it seems to.
 */
export class StringSyntax {
  /** Queries that may change the setting. */
  readonly #unanswered = new Set<object>()
  #first = false
  #escapes = false

  /** Both, while a query that may change the setting is unanswered. */
  get possibleEscapes(): readonly boolean[] {
    return this.#unanswered.size > 0 ? [false, true] : [this.#escapes]
  }

  /** A query is about to be sent. Returns what to call when it has been answered. */
  sent(text: string): () => void {
    if (!MAY_CHANGE.test(text)) return () => undefined
    const sent = {}
    this.#unanswered.add(sent)
    return () => void this.#unanswered.delete(sent)
  }

  /** Follows the setting on a connection. The server reports each change before it is ready for the next statement. */
  follow(client: pg.Client, conforming: boolean): void {
    this.#first = !conforming
    this.#escapes = !conforming
    client.connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) => {
      if (parameterName === SETTING) this.#escapes = parameterValue === 'off'
    })
  }

  /** A query that undoes a handler's change has been sent. It may not be answered before the next one is read. */
  reset(): void {
    this.#escapes = this.#first
  }
}

interface ParameterStatus {
  readonly parameterName: string
  readonly parameterValue: string
}

const SETTING = 'standard_conforming_strings'

/** By its name, or back to an earlier value. */
const MAY_CHANGE = /standard_conforming_strings|\breset\b|\brollback\b/i

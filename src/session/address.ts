import { Constraints } from './constraints.ts'

/** What all connections to one address have in common: their database, and whether statements may have names. */
export class Address {
  readonly constraints = new Constraints()
  readonly #onNamesRefused: () => void
  #takesNames = true

  constructor(onNamesRefused: () => void = () => undefined) {
    this.#onNamesRefused = onNamesRefused
  }

  get takesNames(): boolean {
    return this.#takesNames
  }

  /** A pooler hands sessions around and does not track names: from here on, no connection uses any. */
  refuseNames(): void {
    if (!this.#takesNames) return
    this.#takesNames = false
    this.#onNamesRefused()
  }
}

/** Catches the first two SIGTERM or SIGINT. The third one ends the process by default. */
export class Signals implements Disposable {
  readonly #first = Promise.withResolvers<NodeJS.Signals>()
  readonly #second = Promise.withResolvers<NodeJS.Signals>()
  #count = 0
  readonly #hear = (signal: NodeJS.Signals): void => {
    this.#count += 1
    if (this.#count === 1) this.#first.resolve(signal)
    else {
      this.#second.resolve(signal)
      this[Symbol.dispose]()
    }
  }

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#hear)
  }

  get first(): Promise<NodeJS.Signals> {
    return this.#first.promise
  }

  get second(): Promise<NodeJS.Signals> {
    return this.#second.promise
  }

  [Symbol.dispose](): void {
    for (const signal of SIGNALS) process.off(signal, this.#hear)
  }
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

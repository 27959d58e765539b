/** Makes a thing once for each name, because to make it takes longer than to use it; not for endlessly many names. */
export class Kept<Thing> {
  readonly #make: (name: string) => Thing
  readonly #things = new Map<string, Thing>()

  constructor(make: (name: string) => Thing) {
    this.#make = make
  }

  of(name: string): Thing {
    const known = this.#things.get(name)
    if (known !== undefined) return known
    const thing = this.#make(name)
    if (this.#things.size < MOST_KEPT) this.#things.set(name, thing)
    return thing
  }
}

const MOST_KEPT = 1_000

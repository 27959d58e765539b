import fc from 'fast-check'

/** Something that happens to a model; a counterexample prints it by its name and what was drawn for it. */
export type Step<Model> = (model: Model) => void

/** Makes the steps of one kind of model. */
export function stepsOf<Model>() {
  return <T>(name: string, value: fc.Arbitrary<T>, act: (model: Model, value: T) => void): fc.Arbitrary<Step<Model>> =>
    value.map((drawn) =>
      Object.assign((model: Model) => act(model, drawn), {
        [fc.toStringMethod]: () => `${name}(${fc.stringify(drawn)})`,
      }),
    )
}

/** The item at a place drawn without knowing how many there are. */
export function pick<T>(items: readonly T[], place: number): T | undefined {
  return items[place % Math.max(1, items.length)]
}

/** Something that a process does next, or that happens to it. */
export interface Move<State> {
  readonly name: string
  /** Changes a copy of the state. */
  readonly apply: (state: State) => void
  /** Nobody has to: a fault, or somebody who begins something new. */
  readonly optional?: boolean
}

/** Processes as one plain state and the moves that are possible in it, each of them atomic. */
export interface Model<State> {
  readonly initial: State
  readonly moves: (state: State) => readonly Move<State>[]
  /** What must never be. */
  readonly wrong: (state: State) => string | undefined
  /** All has been handled. */
  readonly done: (state: State) => boolean
  /** States with the same key are one: what is symmetrical, or of no consequence, is left out of it. */
  readonly key?: (state: State) => string
}

export interface Verdict {
  readonly states: number
  readonly moves: number
  /** Undefined: it holds in every state. */
  readonly counterexample: Counterexample | undefined
}

export interface Counterexample {
  readonly why: string
  /** The shortest way there; and, where something is stuck, one way on from there until nothing has to move. */
  readonly trace: readonly string[]
}

export const STUCK = 'something waits, and nothing that must happen will have it handled'

/**
 * Goes through all states, nearest first. Nothing wrong may be in any of them, and from each the moves that are not
 * optional must be able to lead to one in which all is handled. If the scheduler is fair, they then do so.
 */
export function check<State>(model: Model<State>): Verdict {
  const graph = new Graph(model)
  for (let at = 0; at < graph.size; at += 1) {
    const why = model.wrong(graph.stateAt(at))
    if (why !== undefined) return graph.verdict(at, why)
    graph.expand(at)
  }
  const stuck = graph.firstWithoutWayOut()
  return stuck === undefined ? graph.verdict() : graph.verdict(stuck, STUCK, graph.onwards(stuck))
}

class Graph<State> {
  readonly #model: Model<State>
  readonly #places = new Map<string, number>()
  readonly #states: State[] = []
  readonly #parents: number[] = []
  readonly #names: string[] = []
  /** For each state, from which ones a move that is not optional leads to it. */
  readonly #before: number[][] = []
  readonly #done: number[] = []
  #moves = 0

  constructor(model: Model<State>) {
    this.#model = model
    this.#add(model.initial, -1, 'begin')
  }

  get size(): number {
    return this.#states.length
  }

  stateAt(at: number): State {
    return this.#states[at]!
  }

  expand(at: number): void {
    for (const { name, apply, optional = false } of this.#model.moves(this.stateAt(at))) {
      const next = copyOf(this.stateAt(at))
      apply(next)
      const to = this.#add(next, at, name)
      if (!optional) this.#before[to]!.push(at)
      this.#moves += 1
    }
  }

  /** Backwards from where all is handled; what that does not come to is stuck. */
  firstWithoutWayOut(): number | undefined {
    const reached = new Uint8Array(this.size)
    const left = [...this.#done]
    for (const at of left) reached[at] = 1
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      for (const from of this.#before[at]!) {
        if (reached[from] === 1) continue
        reached[from] = 1
        left.push(from)
      }
    }
    const first = reached.indexOf(0)
    return first === -1 ? undefined : first
  }

  /** What goes on happening, as far as something new does. */
  onwards(from: number): readonly string[] {
    const trace: string[] = []
    const seen = new Set([from])
    let state = this.stateAt(from)
    for (;;) {
      const next = this.#model
        .moves(state)
        .filter(({ optional = false }) => !optional)
        .map(({ name, apply }) => {
          const to = copyOf(state)
          apply(to)
          return { name, to, at: this.#places.get(this.#keyOf(to)) ?? -1 }
        })
        .find(({ at }) => !seen.has(at))
      if (next === undefined) return trace
      trace.push(next.name)
      seen.add(next.at)
      state = next.to
    }
  }

  verdict(at?: number, why = '', onwards: readonly string[] = []): Verdict {
    const counterexample = at === undefined ? undefined : { why, trace: [...this.#traceTo(at), ...onwards] }
    return { states: this.size, moves: this.#moves, counterexample }
  }

  #add(state: State, parent: number, name: string): number {
    const key = this.#keyOf(state)
    const known = this.#places.get(key)
    if (known !== undefined) return known
    const at = this.size
    this.#places.set(key, at)
    this.#states.push(state)
    this.#parents.push(parent)
    this.#names.push(name)
    this.#before.push([])
    if (this.#model.done(state)) this.#done.push(at)
    return at
  }

  #keyOf(state: State): string {
    return this.#model.key?.(state) ?? JSON.stringify(state)
  }

  #traceTo(at: number): readonly string[] {
    const trace: string[] = []
    for (let step = at; step > 0; step = this.#parents[step]!) trace.unshift(this.#names[step]!)
    return trace
  }
}

/** Of plain data. A spread copies an object five times as fast as its entries one by one. */
function copyOf<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copyOf) as Value
  const copy = { ...value }
  for (const name in copy) if (typeof copy[name] === 'object') copy[name] = copyOf(copy[name])
  return copy
}

import { setTimeout as pause } from 'node:timers/promises'
import type { PlayedSession, Stage } from './stage.ts'

/** One thing that a session does: usually one statement. */
export interface PlayedStep<World> {
  readonly name: string
  readonly run: (session: PlayedSession, world: World) => Promise<void>
}

/** Sessions, each a list of steps that keeps its order. */
export interface Scenario<World> {
  /**
   * Sessions that are given one and the same list are alike: of the orders that differ only by which of them is which, one is
   * played.
   */
  readonly sessions: Readonly<Record<string, readonly PlayedStep<World>[]>>
  /** What there is at the beginning, in a queue of its own. */
  readonly prepare: (queue: string, session: (name: string) => PlayedSession) => Promise<World>
  /** Looks at the end, when all sessions have ended, and says what is wrong. */
  readonly wrong: (world: World) => Promise<readonly string[]>
}

export interface Finding {
  /** The steps in the order in which they were to be. */
  readonly order: string
  readonly wrong: readonly string[]
}

export interface Explored {
  readonly interleavings: number
  /** How many of them had a step that waited for another session's lock. */
  readonly waited: number
  readonly findings: readonly Finding[]
}

/** Plays every interleaving of the sessions' steps on the server, each in a fresh queue; those of sessions that are alike once. */
export async function explore<World>(stage: Stage, scenario: Scenario<World>): Promise<Explored> {
  return exploreUntil(stage, scenario, () => false)
}

/** For a scenario that is broken on purpose: plays until all that is expected has gone wrong, or to the end. */
export async function exploreFor<World>(
  stage: Stage,
  scenario: Scenario<World>,
  expected: readonly string[],
): Promise<Explored> {
  return exploreUntil(stage, scenario, ({ findings }) => {
    const seen = new Set(findings.flatMap(({ wrong }) => wrong))
    return expected.every((line) => seen.has(line))
  })
}

async function exploreUntil<World>(
  stage: Stage,
  scenario: Scenario<World>,
  isEnough: (explored: Explored) => boolean,
): Promise<Explored> {
  const names = Object.keys(scenario.sessions)
  await stage.need(names)
  const findings: Finding[] = []
  let interleavings = 0
  let waited = 0
  for (const order of interleavingsOf(names.map((name) => scenario.sessions[name]!))) {
    const play = new Play(stage, scenario, names)
    const wrong = await play.run(order)
    interleavings += 1
    if (play.waited) waited += 1
    if (wrong.length === 0) continue
    findings.push({ order: play.told.join(', '), wrong })
    if (isEnough({ interleavings, waited, findings })) break
  }
  return { interleavings, waited, findings }
}

/** All orders of the steps of each session, as the number of the session whose turn it is. Sessions that are alike begin in turn. */
function* interleavingsOf(
  lists: readonly (readonly unknown[])[],
  done: readonly number[] = lists.map(() => 0),
): Generator<readonly number[]> {
  if (lists.every((list, at) => done[at] === list.length)) yield []
  for (const [at, list] of lists.entries()) {
    const mayBegin = lists.every((other, before) => before >= at || other !== list || done[before]! > 0)
    if (done[at] === list.length || !mayBegin) continue
    for (const rest of interleavingsOf(lists, done.with(at, done[at]! + 1))) yield [at, ...rest]
  }
}

interface Part<World> {
  readonly session: PlayedSession
  readonly steps: readonly PlayedStep<World>[]
  /** How many of its steps may have begun by now, and how many have. */
  allowed: number
  begun: number
  running: boolean
  /** Resolves when the step that was begun last has ended. */
  ended: Promise<void>
}

/**
 * Nearly every step that waits for nobody has ended by then. To ask who waits costs more than most of them, so on a busy
 * machine it is asked again after twice the time.
 */
const STEP_MS = 3
const LONGEST_STEP_MS = 48

/**
 * One interleaving. A step that waits for the lock of another session is set aside: the others go on, and what its own
 * session was to do meanwhile follows when it is free.
 */
class Play<World> {
  readonly told: string[] = []
  readonly #stage: Stage
  readonly #scenario: Scenario<World>
  readonly #parts: readonly Part<World>[]
  readonly #failures: string[] = []
  waited = false

  constructor(stage: Stage, scenario: Scenario<World>, names: readonly string[]) {
    this.#stage = stage
    this.#scenario = scenario
    this.#parts = names.map((name) => ({
      session: stage.session(name),
      steps: scenario.sessions[name]!,
      allowed: 0,
      begun: 0,
      running: false,
      ended: Promise.resolve(),
    }))
  }

  async run(order: readonly number[]): Promise<readonly string[]> {
    const world = await this.#scenario.prepare(this.#stage.freshQueue(), (name) => this.#stage.session(name))
    for (const turn of order) {
      const part = this.#parts[turn]!
      this.told.push(`${part.session.name}: ${part.steps[part.allowed]!.name}`)
      part.allowed += 1
      await this.#goOn(world)
    }
    // What waits now waits in a circle: the server ends it.
    while (this.#parts.some(({ running }) => running)) await this.#goOn(world)
    for (const { session } of this.#parts) await session.endTransaction()
    return [...this.#failures, ...(await this.#scenario.wrong(world))]
  }

  /** Begins what may begin, until every session has done its steps so far or waits for another. */
  async #goOn(world: World): Promise<void> {
    for (let stepMs = STEP_MS; ; stepMs = Math.min(2 * stepMs, LONGEST_STEP_MS)) {
      for (const part of this.#parts) if (!part.running && part.begun < part.allowed) this.#begin(part, world)
      const running = this.#parts.filter((part) => part.running)
      if (running.length === 0) return
      await Promise.race([pause(stepMs), Promise.all(running.map(({ ended }) => ended))])
      if (!running.some((part) => part.running)) continue
      const waiting = await this.#stage.waiting(running.map(({ session }) => session))
      const still = running.filter((part) => part.running)
      const free = this.#parts.some((part) => !part.running && part.begun < part.allowed)
      if (!free && still.every(({ session }) => waiting.has(session))) {
        this.waited ||= still.length > 0
        return
      }
    }
  }

  #begin(part: Part<World>, world: World): void {
    const step = part.steps[part.begun]!
    part.begun += 1
    part.running = true
    part.ended = step
      .run(part.session, world)
      .catch((error: unknown) => {
        this.#failures.push(`${part.session.name}: ${step.name} failed: ${error}`)
        part.begun = part.steps.length
      })
      .finally(() => {
        part.running = false
      })
  }
}

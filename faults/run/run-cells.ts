import type { Row } from '../report/table.ts'
import type { Mode } from './modes.ts'
import { inMode, type Scenario, type ScenarioInMode } from './scenario.ts'

/** A scenario in a mode, and the seed of its round. */
export interface Cell {
  readonly mode: Mode
  readonly scenario: ScenarioInMode
  readonly seed: number
}

export interface RunCellsOptions {
  readonly atATime: number
  readonly run: (cell: Cell) => Promise<Row>
  /** Called as soon as there is one, with the place of its cell among all. */
  readonly onRow: (row: Row, at: number) => void
  /** Aborts when no more cells are to begin. Those that run come to their end. */
  readonly over: AbortSignal
}

/** Runs cells in their order, so many at a time, until there are no more or the run is over. */
export async function runCells(cells: Iterable<Cell>, options: RunCellsOptions): Promise<void> {
  const { atATime, run, onRow, over } = options
  const waiting = cells[Symbol.iterator]()
  let begun = 0
  const lane = async () => {
    while (!over.aborted) {
      const next = waiting.next()
      if (next.done) return
      const at = begun++
      onRow(await run(next.value), at)
    }
  }
  await Promise.all(Array.from({ length: atATime }, lane))
}

/** Round after round of the cells that are wanted, each with a seed of its own; or one, if `rounds` is 1. */
export function* cellsOf(
  modes: readonly Mode[],
  scenarios: readonly Scenario[],
  seed: number,
  rounds: number,
  isWanted: (cell: Cell) => boolean = () => true,
): Generator<Cell> {
  for (let round = 0; round < rounds; round++) {
    for (const mode of modes) {
      const cells = scenariosOf(mode, scenarios).map((scenario) => ({ mode, scenario, seed: seed + round }))
      yield* cells.filter(isWanted)
    }
  }
}

/** Whether a quick run has it, if it is not named. */
export function isQuick({ mode, scenario }: Pick<Cell, 'mode' | 'scenario'>): boolean {
  return mode.quick.has(scenario.name)
}

/** Those that apply in a mode, as they run there. */
export function scenariosOf({ name }: Mode, scenarios: readonly Scenario[]): readonly ScenarioInMode[] {
  return scenarios.flatMap((scenario) => {
    const found = inMode(scenario, name)
    return 'inapplicable' in found ? [] : [found]
  })
}

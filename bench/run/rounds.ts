import type { Cell, Scale } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import { type Sample, takeSample } from './sample.ts'
import type { BenchServer } from './server.ts'

/** One contestant in one case, with a sample for each round. */
export interface Entry {
  readonly contestant: Contestant
  readonly case: string
  readonly samples: readonly Sample[]
}

export interface RoundsSpec {
  readonly cell: Cell
  readonly contestants: readonly Contestant[]
  readonly rounds: number
  readonly scale: Scale
  readonly signal: AbortSignal
  readonly onSample: (round: number, entry: Omit<Entry, 'samples'>, sample: Sample) => void
}

/**
 * Takes a sample of each contestant in each case, round after round. The machine's mood changes from minute to minute,
 * so contestants are compared within a round; and each round starts with the next case and the next contestant, so that
 * nobody is always the one who runs behind the same other.
 */
export async function runRounds(server: Pick<BenchServer, 'database'>, spec: RoundsSpec): Promise<readonly Entry[]> {
  const cases = spec.cell.cases.filter(({ slow }) => slow === undefined || spec.scale === 'full')
  const byCase = cases.map((found) =>
    spec.contestants.map((contestant) => ({ contestant, case: found, samples: [] as Sample[] })),
  )
  for (let round = 0; round < spec.rounds; round++) {
    for (const entry of rotated(byCase, round).flatMap((entries) => rotated(entries, round))) {
      spec.signal.throwIfAborted()
      const order = { cell: spec.cell, case: entry.case, contestant: entry.contestant, scale: spec.scale }
      const database = await server.database(entry.contestant.database)
      const sample = await takeSample(database, order, spec.signal)
      entry.samples.push(sample)
      spec.onSample(round + 1, { contestant: entry.contestant, case: entry.case.name }, sample)
    }
  }
  return byCase.flat().map((entry) => ({ ...entry, case: entry.case.name }))
}

function rotated<T>(list: readonly T[], by: number): readonly T[] {
  const start = by % list.length
  return [...list.slice(start), ...list.slice(0, start)]
}

import { describe, expect, test } from 'vitest'
import { lineOf, type Row } from '../../faults/report/table.ts'
import { MODES } from '../../faults/run/modes.ts'
import { type Cell, cellsOf, runCells, scenariosOf } from '../../faults/run/run-cells.ts'
import { SCENARIOS } from '../../faults/scenarios/index.ts'

/** They apply in every mode. */
const CHOSEN = SCENARIOS.slice(0, 3)
const NAMES = CHOSEN.map(({ name }) => name)
const ROUND = CHOSEN.length * MODES.length

describe('a run of the fault matrix', () => {
  test('that has a time ends between two scenarios, in the middle of a round', async () => {
    const run = start({ rounds: Number.POSITIVE_INFINITY })
    for (let at = 0; at < ROUND + 1; at++) await run.end()
    expect(run.begun).toHaveLength(ROUND + 2)
    run.over.abort()
    await run.end()
    await run.done
    expect(run.begun).toHaveLength(ROUND + 2)
    expect(run.rows.map(({ seed }) => seed)).toEqual([...Array(ROUND).fill(7), 8, 8])
  })

  test('without one ends after a round', async () => {
    const run = start({ rounds: 1 })
    for (let at = 0; at < ROUND; at++) await run.end()
    await run.done
    expect(run.rows.map(({ scenario }) => scenario)).toEqual(MODES.flatMap(() => NAMES))
  })

  test('tells the verdict of a scenario while others run, and keeps the order of the matrix', async () => {
    const run = start({ rounds: 1, atATime: 2 })
    await run.end(1)
    expect(run.rows.map((row) => row?.scenario)).toEqual([undefined, NAMES[1]])
    await run.end(0)
    expect(run.rows.map((row) => row?.scenario)).toEqual([NAMES[0], NAMES[1]])
    for (let at = 2; at < ROUND; at++) await run.end(at)
    await run.done
  })

  test.for(MODES)('that is quick has only scenarios that there are in $name mode', (mode) => {
    const known = scenariosOf(mode, SCENARIOS).map(({ name }) => name)
    expect([...mode.quick].filter((name) => !known.includes(name))).toEqual([])
  })

  test('tells at once, in full, what it found', () => {
    const finding = { verdict: 'lost', count: 2, examples: ['message 5', 'message 7'] } as const
    const outcome = { kind: 'judged', findings: [finding], recovery: [], messages: 10, ms: 1 } as const
    const row = rowOf({ mode: MODES[0]!, scenario: scenariosOf(MODES[0]!, CHOSEN)[0]!, seed: 7 })
    expect(lineOf(row)).toMatch(/^ok .*nothing lost or repeated, worst 0 of \d+ ms \(seed 7, 0 s\)$/)
    expect(lineOf({ ...row, outcome })).toMatch(/^BAD .*lost.*seed 7.*lost \(2\): message 5; message 7$/s)
  })
})

/** A run whose scenarios end when the test says so. */
function start({ rounds, atATime = 1 }: { readonly rounds: number; readonly atATime?: number }) {
  const over = new AbortController()
  const begun: PromiseWithResolvers<void>[] = []
  const rows: Row[] = []
  const done = runCells(cellsOf(MODES, CHOSEN, 7, rounds), {
    atATime,
    over: over.signal,
    run: async (cell) => {
      const end = Promise.withResolvers<void>()
      begun.push(end)
      await end.promise
      return rowOf(cell)
    },
    onRow: (row, at) => {
      rows[at] = row
    },
  })
  const end = async (at = begun.length - 1) => {
    begun[at]?.resolve()
    await new Promise(setImmediate)
  }
  return { over, begun, rows, done, end }
}

function rowOf({ mode, scenario: { name, title, recoveryMs }, seed }: Cell): Row {
  const outcome = { kind: 'judged', findings: [], recovery: [], messages: 0, ms: 0 } as const
  return { mode: mode.name, scenario: name, title, recoveryMs, seed, ms: 0, outcome }
}

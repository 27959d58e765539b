import { describe, expect } from 'vitest'
import { explore, type PlayedStep } from '../support/permutations/permutations.ts'
import { summary } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'

interface Locks {
  readonly queue: string
  readonly done: string[]
}

const lock = (number: number): PlayedStep<Locks> => ({
  name: `locks ${number}`,
  run: async ({ name, client }, { queue, done }) => {
    if (client.getTransactionStatus() === 'I') await client.query('BEGIN')
    await client.query('SELECT pg_advisory_xact_lock(hashtext($1), $2)', [queue, number])
    done.push(`${name}${number}`)
  },
})

const commit: PlayedStep<Locks> = { name: 'commits', run: (session) => session.commit() }

const scenarioOf = (a: readonly PlayedStep<Locks>[], b: readonly PlayedStep<Locks>[], seen: string[]) => ({
  sessions: { a, b },
  prepare: async (queue: string) => ({ queue, done: [] }),
  wrong: async ({ done }: Locks) => {
    seen.push(done.join(' '))
    return []
  },
})

describe('the player of interleavings', () => {
  test('sets a step aside that waits for another session, and goes on with it when it is free', async ({ stage }) => {
    const seen: string[] = []
    const explored = await explore(stage, scenarioOf([lock(1), commit], [lock(1), lock(2), commit], seen))
    expect(summary(explored)).toEqual({ interleavings: 10, waited: 8, wrong: [] })
    expect(new Set(seen)).toEqual(new Set(['a1 b1 b2', 'b1 b2 a1']))
  })

  test('plays sessions that have the same list once, whichever of them comes first', async ({ stage }) => {
    const steps = [lock(1), commit]
    const [alike, apart]: [string[], string[]] = [[], []]
    expect((await explore(stage, scenarioOf(steps, steps, alike))).interleavings).toBe(3)
    expect((await explore(stage, scenarioOf(steps, [...steps], apart))).interleavings).toBe(6)
    const exchanged = alike.map((done) => done.replaceAll(/[ab]/g, (name) => (name === 'a' ? 'b' : 'a')))
    expect(new Set([...alike, ...exchanged])).toEqual(new Set(apart))
  })

  test('says so when two sessions wait for each other', async ({ stage }) => {
    const explored = await explore(stage, scenarioOf([lock(1), lock(2), commit], [lock(2), lock(1), commit], []))
    expect(explored.interleavings).toBe(20)
    expect(explored.findings.length).toBeGreaterThan(0)
    for (const { wrong } of explored.findings) expect(wrong).toEqual([expect.stringContaining('deadlock detected')])
  })
})

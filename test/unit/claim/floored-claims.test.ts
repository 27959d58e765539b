import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ClaimRequest } from '../../../src/claim/claim-answer.ts'
import { FlooredClaims } from '../../../src/claim/floored-claims.ts'
import type { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'

describe('claims that are in flight when the server behind the connections changes', () => {
  test('are all void: the floors with which they were sent may be above messages that are there again', async () => {
    const server = new PlayedServer()
    let forgotten = 0
    const claims = new FlooredClaims(OPTIONS, Math.random, () => forgotten++)
    const connection = connectionOf(server)
    const send = () => claims.claim(connection, {}, 'unkeyed', false)
    const answer = async (memory: string) => (await server.next()).answer([line({ memory, id: '7' })])

    const first = send()
    await answer('1/1')
    expect(await first).toMatchObject({ void: false, rows: [{ id: '7' }] })

    const inFlight = [send(), send()]
    for (const _ of inFlight) await answer('2/2')
    for (const look of await Promise.all(inFlight)) expect(look).toMatchObject({ void: true, rows: [] })
    expect(forgotten).toBe(1)

    const next = send()
    await answer('2/2')
    expect(await next).toMatchObject({ void: false, rows: [{ id: '7' }] })
    expect(forgotten).toBe(1)
  })
})

test('a claim looks back by 100 ms, also when the answer before came late, for example behind a slow COMMIT', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const server = new PlayedServer()
  const claims = new FlooredClaims(OPTIONS, Math.random, () => undefined)
  const first = claims.claim(connectionOf(server), {}, 'unkeyed', false)
  vi.advanceTimersByTime(500)
  // The server has read its clock just now, not when the claim was sent.
  const nowUs = 10_000_000
  server.asked[0]?.answer([line({ nowUs, dueUs: nowUs })])
  await first
  void claims.claim(connectionOf(server), {}, 'unkeyed', false)
  expect(server.asked[1]?.params[2]).toEqual([nowUs - 100_000])
})

const OPTIONS = { queue: 'q', batchSize: 10, concurrency: 2, ordered: false }

function connectionOf(server: PlayedServer): BatchConnection {
  return { execute: server.execute } as unknown as BatchConnection
}

/** A line of a claim's answer, as the driver gives it. */
function line({ memory = '1/1', nowUs = 0, dueUs = 0, id = '1' }) {
  return {
    context: `${nowUs} f 1 0 ${memory}`,
    ...{ id, priority: 5, slot: null, ordering_key: null, type: null, schema_version: 1, payload: '{}', headers: '{}' },
    ...{ attempt: 0, max_attempts: null, due_us: dueUs, enqueued_us: dueUs },
  }
}

/** Of an array as the server reads it. */
function firstOf(numbers: unknown): number {
  return Number(/-?\d+/.exec(String(numbers)))
}

describe('claims of a relay', () => {
  const relaying = { ...OPTIONS, batchSize: 100, slotsPerClaim: 25 }
  const claimsOf = (plan: typeof relaying) => {
    const server = new PlayedServer()
    const claims = new FlooredClaims(
      plan,
      () => 0,
      () => undefined,
    )
    claims.floors.learn(
      [],
      Array.from({ length: 100 }, (_, slot) => slot),
    )
    const claim = (terms: ClaimRequest = {}) => {
      void claims.claim(connectionOf(server), terms, 'keyed', false)
      const [, slots, , limit, share] = server.asked.at(-1)?.params ?? []
      return { first: firstOf(slots), limit, share }
    }
    return claim
  }

  test('take a few messages of each slot, and the next one begins behind those that a full one takes from', () => {
    const claim = claimsOf(relaying)
    expect(claim()).toEqual({ first: 0, limit: 100, share: 4 })
    expect(claim()).toEqual({ first: 25, limit: 100, share: 4 })
  })

  test('take all that they may of a slot under limits, because what is less than that is given back', () => {
    const claim = claimsOf(relaying)
    expect(claim({ most: 10 })).toEqual({ first: 0, limit: 10, share: 10 })
    expect(claim()).toEqual({ first: 1, limit: 100, share: 4 })
  })

  test('differ in that from those of other pipelines', () => {
    const claim = claimsOf({ ...relaying, slotsPerClaim: 1 })
    expect(claim()).toEqual({ first: 0, limit: 100, share: 100 })
    expect(claim()).toEqual({ first: 1, limit: 100, share: 100 })
  })
})

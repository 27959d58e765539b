import { describe, expect, inject } from 'vitest'
import { claim } from '../../../src/table/claim/claim.ts'
import { claimAgain } from '../../../src/table/claim/claim-again.ts'
import { leaseOf } from '../../../src/table/claim/lease.ts'
import { test as base, bottomOf, type ClaimSession, idsOf, put } from '../../support/rows/claim-session.ts'
import { postponeMessages } from '../../support/rows/write-settled.ts'

const LEASE = { lease: leaseOf(7, 1), ms: 600_000, serverVersion: inject('serverVersion') }

/** A message whose batch has lost its transaction, as it was claimed. */
const test = base.extend('lost', async ({ database, queue, begin }) => {
  await put(database, queue, [{}])
  const batch = await begin()
  const { nowUs, rows } = await claim(batch.execute, queue, bottomOf(5), 1)
  const [row] = rows
  await batch.rollBack()
  return { queue, id: row!.id, attempt: row!.attempt, dueUs: row!.dueUs, slot: row!.slot, nowUs }
})

describe('a message whose transaction was lost', () => {
  test('is claimed again if it is as it was', async ({ begin, lost }) => {
    const { execute } = await begin()
    expect(idsOf(await claimAgain(execute, lost))).toEqual([lost.id])
  })

  const takers: Readonly<Record<string, (session: ClaimSession, queue: string) => Promise<unknown>>> = {
    'a claim': ({ client }, queue) => client.query('SELECT FROM sluice.claim($1)', [queue]),
    'a worker, under a lease': ({ execute }, queue) => claim(execute, queue, bottomOf(5), 1, LEASE),
  }
  for (const [taker, take] of Object.entries(takers)) {
    test(`is left to ${taker} that has it by now`, async ({ begin, queue, lost }) => {
      const [other, again] = [await begin(), await begin()]
      await take(other, queue)
      await other.commit()
      expect(idsOf(await claimAgain(again.execute, lost))).toEqual([])
    })
  }

  test('stays snoozed if its COMMIT has taken effect', async ({ begin, queue, lost }) => {
    const [batch, again] = [await begin(), await begin()]
    const snoozed = { id: lost.id, dueUs: lost.nowUs + 3_600_000_000, attempt: lost.attempt, error: null }
    await postponeMessages(batch.execute, queue, [snoozed], lost.nowUs)
    await batch.commit()
    expect(idsOf(await claimAgain(again.execute, lost))).toEqual([])
  })
})

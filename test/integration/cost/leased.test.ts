import { describe, expect, inject } from 'vitest'
import { test, times } from '../../support/plans/counted.ts'
import { deferred } from '../../support/wait.ts'

/** Before version 17 the server finds rows by their ctid. */
const CLAIM = inject('serverVersion') < 170_000 ? 'claim_leased_by_ctid' : 'claim_leased'

describe('the cost of a claim in leased mode:', () => {
  test('in a backlog eight claims of one message leave together, each with its COMMIT', async ({ counted, queue }) => {
    const { sluice } = counted
    await sluice.enqueueMany(sluice.ownTransaction, queue, times(20, [{ payload: 1 }]))
    const allInHand = deferred<void>()
    const release = deferred<void>()
    let inHand = 0
    await counted.clear()
    const pipeline = sluice
      .pipeline(queue, { mode: 'leased', concurrency: 9, batchSize: 1 })
      .handle(() => {
        inHand += 1
        if (inHand === 9) allInHand.resolve()
        return release.promise
      })
      .start()
    await allInHand.promise
    const flushes = await counted.flushesWith('sluice', CLAIM)
    release.resolve()
    expect(flushes.map((flush) => flush.filter((sent) => sent === CLAIM).length)).toEqual([1, 8])
    // The COMMIT of the first claim waits for its answer.
    expect(flushes.map((flush) => flush.filter((sent) => sent.startsWith('COMMIT')).length)).toEqual([0, 8])
    await pipeline.drain()
  })
})

import { describe, expect, test } from 'vitest'
import { Seats, type Use } from '../../../src/connection/seats.ts'

const SHARES = { batches: 2, transactions: 0, claims: 0, settlements: 0, calls: 1 }

describe('seats', () => {
  test('are taken up to the share, and then in turn', async () => {
    const { take, taken } = seats(3)
    const first = await take('batches')
    await take('batches')
    void take('batches', 'third')
    void take('batches', 'fourth')
    await settled()
    expect(taken).toEqual([])
    first()
    await settled()
    expect(taken).toEqual(['third'])
  })

  test('of calls are free while batches have all of theirs', async () => {
    const { take } = seats(3)
    await take('batches')
    await take('batches')
    await take('calls')
  })

  test('that batches have above their new share are taken by no other before they are given back', async () => {
    const { all, take, taken } = seats(3)
    const [first, second] = [await take('batches'), await take('batches')]
    all.share({ ...SHARES, batches: 1, calls: 2 })
    await take('calls')
    void take('calls', 'call')
    void take('batches', 'batch')
    await settled()
    expect(taken).toEqual([])
    first()
    await settled()
    expect(taken).toEqual(['call'])
    second()
    await settled()
    expect(taken).toEqual(['call', 'batch'])
  })

  test('outside of the pool wait for batches, and calls do not wait for those', async () => {
    const { all, take, taken } = seats(4)
    all.share({ ...SHARES, batches: 3 })
    const [first] = [await take('batches'), await take('batches'), await take('batches')]
    // Two are to be for another use: batches have one less each time one ends.
    all.share({ ...SHARES, batches: 1 })
    let outside = false
    const waiting = all.room(2).then((leave) => {
      outside = true
      return leave
    })
    const call = await take('calls')
    void take('batches', 'batch')
    first()
    await settled()
    expect([outside, taken]).toEqual([false, []])
    call()
    await settled()
    expect(outside).toBe(false)
    void waiting
  })

  test('outside of the pool are had when enough batches have ended, and given back', async () => {
    const { all, take, taken } = seats(4)
    all.share({ ...SHARES, batches: 3 })
    const [first, second] = [await take('batches'), await take('batches')]
    await take('batches')
    all.share({ ...SHARES, batches: 1 })
    const waiting = all.room(2)
    first()
    second()
    const leave = await waiting
    all.share({ ...SHARES, batches: 3 })
    void take('batches', 'batch')
    await settled()
    expect(taken).toEqual([])
    leave()
    await settled()
    expect(taken).toEqual(['batch'])
  })

  test('for which something outside of the pool waits are not for batches', async () => {
    const { all, take, taken } = seats(4)
    all.share({ ...SHARES, batches: 3 })
    const [first] = [await take('batches'), await take('batches')]
    const waiting = all.room(2)
    void take('batches', 'batch')
    await settled()
    expect(taken).toEqual([])
    first()
    await waiting
    expect(taken).toEqual([])
  })

  test('for which something outside of the pool no longer waits are for batches, and for others outside', async () => {
    const { all, take, taken } = seats(4)
    all.share({ ...SHARES, batches: 3 })
    await take('batches')
    await take('batches')
    const controller = new AbortController()
    const given = all.room(2, controller.signal)
    const next = all.room(1)
    void take('batches', 'batch')
    controller.abort()
    await expect(given).rejects.toMatchObject({ code: 'STOPPED' })
    const leave = await next
    expect(taken).toEqual([])
    leave()
    await settled()
    expect(taken).toEqual(['batch'])
  })

  test('outside of the pool are not waited for when the signal has aborted', async () => {
    const { all, take } = seats(4)
    all.share({ ...SHARES, batches: 3 })
    await expect(all.room(2, AbortSignal.abort())).rejects.toMatchObject({ code: 'STOPPED' })
    for (let taken = 0; taken < 3; taken += 1) await take('batches')
  })

  test('are waited for no longer when the signal aborts', async () => {
    const { all, take } = seats(3)
    const leave = await take('calls')
    const controller = new AbortController()
    const given = all.take('calls', controller.signal)
    controller.abort()
    await expect(given).rejects.toMatchObject({ code: 'STOPPED' })
    leave()
    await take('calls')
  })
})

function seats(limit: number) {
  const all = new Seats(limit)
  all.share(SHARES)
  const taken: string[] = []
  const take = async (use: Use, name?: string) => {
    const leave = await all.take(use)
    if (name !== undefined) taken.push(name)
    return leave
  }
  return { all, take, taken }
}

/** All that can happen without another event has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

import { describe, expect, test } from 'vitest'
import { Room } from '../../../src/modes/leased/room.ts'

const { signal: never } = new AbortController()

describe('the room of a leased pipeline', () => {
  test('lets a claim take what is free, and no more than a claim may take', async () => {
    expect(await new Room(10).reserve(4, never)).toMatchObject({ most: 4 })
    expect(await new Room(3).reserve(4, never)).toMatchObject({ most: 3 })
  })

  test('lets a claim leave as soon as there is room for one message', async () => {
    const room = new Room(4)
    await room.reserve(4, never)
    const next = room.reserve(4, never)
    room.giveBack(1)
    expect(await next).toMatchObject({ most: 1 })
  })

  test('has room for the next message when a handler has answered, until as many wait to be settled', async () => {
    const room = new Room(2)
    ;(await room.reserve(2, never))?.use(2)
    room.answered()
    room.answered()
    ;(await room.reserve(2, never))?.use(2)
    room.answered()
    const next = room.reserve(2, never)
    let came = false
    void next.then(() => {
      came = true
    })
    await Promise.resolve()
    expect(came).toBe(false)
    room.settled()
    expect(await next).toMatchObject({ most: 1 })
  })

  test('has none for a claim that is stopped while it waits', async () => {
    const room = new Room(4)
    await room.reserve(4, never)
    const stopped = new AbortController()
    const next = room.reserve(4, stopped.signal)
    stopped.abort()
    expect(await next).toBeUndefined()
  })

  test('is empty when what was taken is given back, and what was reserved and not taken', async () => {
    const room = new Room(4)
    expect(await room.empty()).toBe(false)
    const reserved = await room.reserve(4, never)
    const empty = room.empty()
    reserved?.use(1)
    reserved?.release()
    reserved?.release()
    room.answered()
    room.settled()
    expect(await empty).toBe(true)
  })
})

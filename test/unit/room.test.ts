import { describe, expect, test } from 'vitest'
import { Room } from '../../src/modes/leased/room.ts'

const { signal: never } = new AbortController()

describe('the room of a leased pipeline', () => {
  test('lets a claim take what is free, and no more than a claim may take', async () => {
    expect(await new Room(10, 4).reserve(4, never)).toBe(4)
    expect(await new Room(3, 4).reserve(4, never)).toBe(3)
  })

  test('lets a claim leave as soon as there is room for one message', async () => {
    const room = new Room(4, 4)
    await room.reserve(4, never)
    room.begun()
    const next = room.reserve(4, never)
    room.giveBack(1)
    expect(await next).toBe(1)
  })

  test('lets another claim leave beside it only with room for a whole batch', async () => {
    const room = new Room(6, 4)
    expect(await room.reserve(4, never)).toBe(4)
    const stopped = new AbortController()
    const other = room.reserve(4, stopped.signal)
    stopped.abort()
    expect(await other).toBe(0)
    const large = new Room(8, 4)
    expect(await large.reserve(4, never)).toBe(4)
    expect(await large.reserve(4, never)).toBe(4)
  })

  test('lets one with less leave when the handlers of the claim beside it have begun', async () => {
    const room = new Room(6, 4)
    const reserved = await room.reserve(4, never)
    const other = room.reserve(4, never)
    room.giveBack(reserved - 3)
    room.begun()
    expect(await other).toBe(3)
  })

  test('is empty when what was taken is given back, and what was reserved and not taken', async () => {
    const room = new Room(4, 4)
    expect(await room.empty()).toBe(false)
    const reserved = await room.reserve(4, never)
    const empty = room.empty()
    room.giveBack(reserved - 1)
    room.begun()
    room.giveBack(1)
    expect(await empty).toBe(true)
  })
})

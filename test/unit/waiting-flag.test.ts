import { beforeEach, describe, expect, test } from 'vitest'
import { WaitingFlag } from '../../src/wake-up/waiting-flag.ts'
import { PlayedServer } from '../support/played-server.ts'
import { waitFor } from '../support/wait.ts'

describe('WaitingFlag', () => {
  let server: PlayedServer
  let looks: number
  let flag: WaitingFlag

  beforeEach(() => {
    server = new PlayedServer()
    looks = 0
    const { execute } = server
    flag = new WaitingFlag({ queue: 'q', execute, workerId: () => 7, onLookAgain: () => looks++ })
  })

  async function answer(state: string): Promise<void> {
    const asked = await server.next()
    expect(asked).toMatchObject({ statement: RAISE, params: ['q'] })
    asked.answer([{ state }])
    await settled()
  }

  test('looks once more when it is ours, and is raised only once', async () => {
    flag.raise()
    flag.raise()
    await answer('held')
    flag.raise()
    expect({ looks, asked: server.statements }).toEqual({ looks: 1, asked: [RAISE] })
  })

  test('tells the others when it is given up', async () => {
    flag.raise()
    await answer('held')
    flag.lower()
    expect(await server.next()).toMatchObject({ statement: LOWER, params: ['q', '!7!q'] })
  })

  test('is given up at once if nobody waits any more when it comes', async () => {
    flag.raise()
    flag.lower()
    await answer('held')
    expect(await server.next()).toMatchObject({ statement: LOWER })
    expect(looks).toBe(0)
  })

  test('is raised again if somebody waits again while it is given up', async () => {
    flag.raise()
    await answer('held')
    flag.lower()
    flag.raise()
    const lowering = await server.next()
    lowering.answer([])
    await answer('held')
    expect(looks).toBe(2)
  })

  test('P5: looks again, later and later, while enqueues are in flight', async () => {
    flag.raise()
    await answer('enqueueing')
    expect(looks).toBe(0)
    await waitFor(() => looks === 1, { what: 'the first look' })
    flag.raise()
    await answer('enqueueing')
    flag.raise()
    expect(server.statements).toHaveLength(2)
    await waitFor(() => looks === 2, { what: 'the second look' })
  })

  test('does not look again for nobody', async () => {
    flag.raise()
    flag.lower()
    await answer('enqueueing')
    flag.raise()
    expect(server.statements).toHaveLength(2)
  })

  test('relies on another process until that one moves', async () => {
    flag.raise()
    await answer('others')
    flag.raise()
    expect({ looks, heldByOthers: flag.heldByOthers, asked: server.statements.length }).toEqual({
      looks: 0,
      heldByOthers: true,
      asked: 1,
    })
    flag.othersMoved()
    await answer('held')
    expect(looks).toBe(1)
  })

  test('P5: tries again if the other process moved before its own try was answered', async () => {
    flag.raise()
    flag.othersMoved()
    await answer('others')
    await answer('held')
    expect(looks).toBe(1)
  })

  test('forgets what it knew of another process when nobody waits here', async () => {
    flag.raise()
    flag.lower()
    await answer('others')
    flag.raise()
    expect(server.statements).toHaveLength(2)
  })

  test('is down after a failure, and after its connection is lost', async () => {
    flag.raise()
    const asked = await server.next()
    asked.fail()
    await settled()
    flag.raise()
    await answer('held')
    flag.forget()
    flag.raise()
    await answer('held')
    expect(looks).toBe(2)
  })
})

const RAISE = 'sluice_flag_raise'
const LOWER = 'sluice_flag_lower'

/** Lets promises that are resolved run on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

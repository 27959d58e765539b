import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { InHand } from '../../../src/crash/in-hand.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { type Asked, PlayedServer } from '../../support/servers/played-server.ts'
import { waitFor } from '../../support/wait.ts'

describe('InHand', () => {
  let server: PlayedServer
  let inHand: InHand
  let found: boolean[]
  let up: boolean
  let shared: boolean
  let connectionUp: (execute: Execute) => Promise<void>

  afterEach(() => void vi.useRealTimers())

  beforeEach(() => {
    server = new PlayedServer()
    found = []
    up = true
    shared = false
    const control = {
      get shared() {
        return shared
      },
      execute: server.execute,
      requireUp: () => {
        if (!up) throw new Error('the connection is down')
      },
      onUp: (listener: (execute: Execute) => Promise<void>) => {
        connectionUp = listener
      },
    }
    inHand = new InHand(
      control,
      () => 7,
      async () => found.shift() ?? false,
    )
  })

  test('a batch begins when its record is on the way, without waiting for the answer', async () => {
    const begun = await inHand.begin('q', [message('11'), message('12', 2)], false)
    expect([begun.id, begun.evidence.size]).toEqual([1, 0])
    expect(server.asked.map(wroteBy)).toEqual([
      { ended: [], begun: [1], queues: ['q'], ids: ['{11,12}'], attempts: ['{0,2}'] },
    ])
  })

  test('where there is evidence about messages of the queue, waits for the record and reads it', async () => {
    const begun = inHand.begin('q', [message('11'), message('12')], true)
    const asked = await server.next()
    expect(server.asked).toHaveLength(1)
    asked.answer([])
    const evidence = await server.next()
    expect([evidence.statement, evidence.params]).toEqual(['sluice_crash_evidence', ['q', ['11', '12']]])
    evidence.answer([
      { message_id: '12', crashes: 2, crashed_alone: false, losses: 1, lost_attempt: null, lost_error: null },
    ])
    expect([...(await begun).evidence]).toEqual([
      ['12', { messageId: '12', crashes: 2, crashedAlone: false, losses: 1, lostTry: undefined }],
    ])
  })

  test('where a look for dead workers may have found some, reads the evidence', async () => {
    found = [true]
    const begun = inHand.begin('q', [message('11')], false)
    ;(await server.next()).answer([])
    ;(await server.next()).answer([
      { message_id: '11', crashes: 1, crashed_alone: true, losses: 0, lost_attempt: null, lost_error: null },
    ])
    expect((await begun).evidence.size).toBe(1)
  })

  test('batches that begin or end during a write share the next, and begin when it is on the way', async () => {
    await begin(1)
    const others = [inHand.begin('a', [message('2')], false), inHand.begin('b', [message('2')], false)]
    inHand.end(1)
    let begun = 0
    for (const other of others) void other.then(() => begun++)
    await new Promise(setImmediate)
    expect({ begun, asked: server.asked.length }).toEqual({ begun: 0, asked: 1 })
    server.asked[0]?.answer([])
    await Promise.all(others)
    expect(server.asked.slice(1).map(wroteBy)).toMatchObject([{ ended: [1], begun: [2, 3], queues: ['a', 'b'] }])
  })

  test('a batch that has ended before its record was sent is not recorded: nothing would delete it', async () => {
    shared = true
    await inHand.begin('q', [message('1')], false)
    const { id } = await inHand.begin('q', [message('2')], false)
    inHand.end(id)
    server.asked[0]?.answer([])
    await waitFor(() => server.asked.length === 2, { what: 'the next write' })
    expect(wroteBy(server.asked[1]!)).toMatchObject({ ended: [2], begun: [] })
  })

  test('a batch that begins while the last write is being answered is not left waiting', async () => {
    for (let turns = 0; turns < 12; turns++) {
      const before = server.asked.length
      await inHand.begin('q', [message('1')], false)
      server.asked.at(-1)?.answer([])
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      const next = inHand.begin('q', [message('2')], false)
      await new Promise(setImmediate)
      expect({ turns, written: server.asked.length - before }).toEqual({ turns, written: 2 })
      await next
      server.asked.at(-1)?.answer([])
      await new Promise(setImmediate)
    }
  })

  test('writes soon that a batch has ended, if no other begins', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    inHand.end(1)
    inHand.end(1)
    await waitFor(() => server.asked.length === 2, { what: 'the end' })
    expect(server.asked.slice(1).map(wroteBy)).toMatchObject([{ ended: [1], begun: [] }])
  })

  test('without a connection no batch begins', async () => {
    up = false
    await expect(inHand.begin('q', [message('1')], false)).rejects.toThrow('the connection is down')
    inHand.end(1)
    await inHand.stop()
    expect(server.asked).toEqual([])
  })

  test.each([
    { what: 'its record fails, which may be written all the same', written: false },
    { what: 'its evidence cannot be read', written: true },
  ])('a batch that needs its evidence does not begin, and is not left in the table, if $what', async ({ written }) => {
    const begun = inHand.begin('q', [message('1')], true)
    const record = await server.next()
    if (written) {
      record.answer([])
      ;(await server.next()).fail()
    } else record.fail()
    await expect(begun).rejects.toThrow('the connection ended')
    expect(wroteBy(await server.next())).toMatchObject({ ended: [1], begun: [] })
  })

  test('after a write that failed, the next batch waits for its own', async () => {
    await begin(1)
    server.asked[0]?.fail()
    await new Promise(setImmediate)
    const next = inHand.begin('q', [message('2')], false)
    await waitFor(() => server.asked.length === 2, { what: 'the second record' })
    server.asked[1]?.fail()
    await expect(next).rejects.toThrow('the connection ended')
  })

  test('remembers what has ended while a write failed', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    await begin(2)
    server.asked[1]?.answer([])
    inHand.end(1)
    await waitFor(() => server.asked.length === 3, { what: 'the end' })
    server.asked[2]?.fail()
    inHand.end(2)
    await waitFor(() => server.asked.length === 4, { what: 'both ends' })
    expect([...wroteBy(server.asked[3]!).ended].toSorted()).toEqual([1, 2])
  })

  test('records its batches again on a new connection, also one whose record was lost on the way', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    await begin(2)
    server.asked[1]?.fail()
    inHand.end(1)
    const other = new PlayedServer()
    const recorded = connectionUp(other.execute)
    const asked = await other.next()
    expect(wroteBy(asked)).toMatchObject({ ended: [], begun: [2] })
    asked.answer([])
    await recorded
  })

  test('a batch that ends after the stop keeps nothing awake', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    await inHand.stop()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    inHand.end(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('what has ended while the connection is down is not tried again: the next connection records what is left', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    await new Promise(setImmediate)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    up = false
    inHand.end(1)
    vi.runOnlyPendingTimers()
    await new Promise(setImmediate)
    expect(vi.getTimerCount()).toBe(0)
    up = true
    void inHand.begin('q', [message('2')], false)
    await new Promise(setImmediate)
    expect(server.asked.slice(1).map(wroteBy)).toMatchObject([{ ended: [], begun: [2] }])
  })

  test('writes what is left when it stops', async () => {
    await begin(1)
    server.asked[0]?.answer([])
    inHand.end(1)
    const stopped = inHand.stop()
    await waitFor(() => server.asked.length === 2, { what: 'the end' })
    expect(wroteBy(server.asked[1]!)).toMatchObject({ ended: [1] })
    server.asked[1]?.answer([])
    await stopped
  })

  /** Begins a batch and lets it have been sent. */
  async function begin(id: number): Promise<void> {
    const begun = await inHand.begin('q', [message(String(id * 10))], false)
    expect(begun.id).toBe(id)
    expect(wroteBy(server.asked.at(-1)!)).toMatchObject({ begun: [id] })
  }
})

function message(id: string, attempt = 0) {
  return { id, attempt }
}

function wroteBy({ statement, params }: Asked) {
  expect(statement).toBe('sluice_batch_record')
  const [workerId, ended, begun, queues, ids, attempts] = params
  expect(workerId).toBe(7)
  return { ended: ended as number[], begun, queues, ids, attempts }
}

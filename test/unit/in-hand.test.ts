import { beforeEach, describe, expect, test } from 'vitest'
import { InHand } from '../../src/pipeline/in-hand.ts'
import type { Execute } from '../../src/table/statement.ts'
import { type Asked, PlayedServer } from '../support/played-server.ts'
import { waitFor } from '../support/wait.ts'

describe('InHand', () => {
  let server: PlayedServer
  let inHand: InHand
  let looks: number
  let connectionUp: (execute: Execute) => Promise<void>

  beforeEach(() => {
    server = new PlayedServer()
    looks = 0
    const control = {
      execute: server.execute,
      onUp: (listener: (execute: Execute) => Promise<void>) => {
        connectionUp = listener
      },
    }
    const look = async () => {
      looks += 1
    }
    inHand = new InHand(control, () => 7, look)
  })

  test('looks for dead workers, records the batch, and gives back the evidence', async () => {
    const begun = inHand.begin('q', [
      { id: '11', attempt: 0 },
      { id: '12', attempt: 2 },
    ])
    const asked = await server.next()
    expect({ looks, wrote: wroteBy(asked) }).toEqual({
      looks: 1,
      wrote: { ended: [], begun: [1], queues: ['q'], ids: ['{11,12}'], attempts: ['{0,2}'] },
    })
    asked.answer([{ queue: 'q', message_id: '12', crashes: 2, alone: false }])
    const { id, crashes } = await begun
    expect([id, [...crashes]]).toEqual([1, [['12', { queue: 'q', messageId: '12', crashes: 2, alone: false }]]])
  })

  test('batches that begin or end during a write share the next, each with its own evidence', async () => {
    const first = inHand.begin('a', [{ id: '1', attempt: 0 }])
    const writing = await server.next()
    const others = [inHand.begin('a', [{ id: '2', attempt: 0 }]), inHand.begin('b', [{ id: '2', attempt: 0 }])]
    inHand.end(1)
    writing.answer([])
    expect((await first).crashes.size).toBe(0)
    const asked = await server.next()
    expect(wroteBy(asked)).toMatchObject({ ended: [1], begun: [2, 3], queues: ['a', 'b'] })
    asked.answer([{ queue: 'b', message_id: '2', crashes: 1, alone: true }])
    const sizes = (await Promise.all(others)).map(({ crashes }) => crashes.size)
    expect(sizes).toEqual([0, 1])
  })

  test('writes soon that a batch has ended, if no other begins', async () => {
    await begin(1)
    inHand.end(1)
    inHand.end(1)
    expect(wroteBy(await server.next())).toMatchObject({ ended: [1], begun: [] })
    expect(looks).toBe(1)
  })

  test('a batch that cannot be recorded does not begin', async () => {
    const begun = inHand.begin('q', [{ id: '1', attempt: 0 }])
    const asked = await server.next()
    asked.fail()
    await expect(begun).rejects.toThrow('the connection ended')
    inHand.end(1)
    await inHand.stop()
    expect(server.asked).toHaveLength(1)
  })

  test('remembers what has ended while a write failed', async () => {
    await begin(1)
    await begin(2)
    inHand.end(1)
    const failing = await server.next()
    failing.fail()
    inHand.end(2)
    const asked = await server.next()
    expect([...wroteBy(asked).ended].toSorted()).toEqual([1, 2])
  })

  test('records its batches again on a new connection, and nothing else', async () => {
    await begin(1)
    await begin(2)
    inHand.end(1)
    const failing = await server.next()
    failing.fail()
    await waitFor(() => server.asked.length === 3, { what: 'the failed write' })
    const other = new PlayedServer()
    const recorded = connectionUp(other.execute)
    const asked = await other.next()
    expect(wroteBy(asked)).toMatchObject({ ended: [], begun: [2] })
    asked.answer([])
    await recorded
    await begin(3, [])
  })

  test('writes what is left when it stops', async () => {
    await begin(1)
    inHand.end(1)
    const stopped = inHand.stop()
    const asked = await server.next()
    expect(wroteBy(asked)).toMatchObject({ ended: [1] })
    asked.answer([])
    await stopped
  })

  async function begin(id: number, ended: readonly number[] = []): Promise<void> {
    const begun = inHand.begin('q', [{ id: String(id * 10), attempt: 0 }])
    const asked = await server.next()
    expect(wroteBy(asked)).toMatchObject({ ended, begun: [id] })
    asked.answer([])
    expect((await begun).id).toBe(id)
  }
})

function wroteBy({ statement, params }: Asked) {
  expect(statement).toBe('sluice_batch_record')
  const [workerId, ended, begun, queues, ids, attempts] = params
  expect(workerId).toBe(7)
  return { ended: ended as number[], begun, queues, ids, attempts }
}

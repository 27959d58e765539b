import { expect, expectTypeOf } from 'vitest'
import type { ListedDeadLetter, ListedMessage } from '../../src/index.ts'
import { put, test } from '../support/sluice.ts'

const LARGE = 'x'.repeat(100_000)

test('a list of messages has no payloads and headers if it is asked for without them', async ({ sluice, queue }) => {
  const [id = ''] = await put(sluice, queue, [LARGE], { headers: { trace: 'abc' }, orderingKey: 'a' })
  const whole = await sluice.operate.messages.get(queue, id)
  for (const filter of [{}, { state: 'ready' }, { orderingKey: 'a' }, { order: 'oldest' }] as const) {
    const { messages } = await sluice.operate.messages.listWithoutPayloads({ queue, ...filter })
    expectTypeOf(messages).toEqualTypeOf<readonly ListedMessage[]>()
    expect(Object.keys(messages[0] ?? {})).not.toEqual(expect.arrayContaining(['payload']))
    expect(messages).toMatchObject([{ id, queue, state: 'ready', orderingKey: 'a', enqueuedAt: whole?.enqueuedAt }])
    expect(JSON.stringify(messages).length).toBeLessThan(2_000)
  }
  const all = await sluice.operate.messages.list({ queue })
  expect(all.messages).toMatchObject([{ payload: LARGE, headers: { trace: 'abc' } }])
})

test('a list of dead letters has none either', async ({ sluice, queue }) => {
  const [id = ''] = await put(sluice, queue, [LARGE])
  await sluice
    .pipeline(queue, { maxAttempts: 1 })
    .handle(() => Promise.reject(new Error('no')))
    .runOnce()
  const { deadLetters } = await sluice.operate.deadLetters.listWithoutPayloads({ queue })
  expectTypeOf(deadLetters).toEqualTypeOf<readonly ListedDeadLetter[]>()
  expect(deadLetters).toMatchObject([{ id, queue, attempt: 1, error: expect.stringContaining('no') }])
  expect(JSON.stringify(deadLetters).length).toBeLessThan(10_000)
  expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toMatchObject([{ payload: LARGE }])
})

test('backlogs are of all queues, or of one', async ({ sluice, queue }) => {
  await put(sluice, queue, [1, 2])
  await put(sluice, `${queue}.other`, [1])
  expect(await sluice.operate.queues.backlogs({ queue })).toMatchObject([{ queue, due: 2, dead: 0, workers: 0 }])
  const names = (await sluice.operate.queues.backlogs()).map((backlog) => backlog.queue)
  expect(names).toEqual(expect.arrayContaining([queue, `${queue}.other`]))
  expect(await sluice.operate.queues.backlogs({ queue: 'nothing' })).toEqual([])
})

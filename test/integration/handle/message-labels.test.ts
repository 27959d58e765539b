import { describe, expect } from 'vitest'
import type { Message } from '../../../src/index.ts'
import { deliver } from '../../../src/testing.ts'
import { test } from '../../support/sluice.ts'

const LABELS = { tenant: 'acme', dedupeKey: 'acme invoice 1' }
const OPTIONS = { tenant: LABELS.tenant, dedupe: { key: LABELS.dedupeKey, for: '1h' } } as const
const NONE = { tenant: null, dedupeKey: null }

const labelsOf = ({ tenant, dedupeKey }: Message) => ({ tenant, dedupeKey })

describe('the tenant and the dedupe key', () => {
  test.for([
    ['transactional', undefined],
    ['leased', { mode: 'leased' }],
  ] as const)('are in the message of a handler in %s mode', async ([, options], { sluice, queue }) => {
    await sluice.enqueue(sluice.ownTransaction, queue, 1, OPTIONS)
    await sluice.enqueue(sluice.ownTransaction, queue, 2, { tenant: 'other' })
    await sluice.enqueue(sluice.ownTransaction, queue, 3)
    await sluice.enqueue(sluice.ownTransaction, queue, 4, { retryPolicy: 'mail' })
    const seen: unknown[] = []
    await sluice
      .pipeline(queue, options as never)
      .handle((message) => {
        seen[Number(message.payload)] = labelsOf(message)
      })
      .runOnce()
    expect(seen.slice(1)).toEqual([LABELS, { tenant: 'other', dedupeKey: null }, NONE, NONE])
  })

  test('are in what deliver gives a handler, which takes no keys', async ({ sluice, queue }) => {
    const seen: unknown[] = []
    const handler = (message: Message) => {
      seen.push(labelsOf(message))
    }
    const messages = [{ payload: 1, tenant: 'acme' }, { payload: 2 }]
    await deliver(sluice, queue, handler, messages)
    await deliver(sluice, queue, handler, messages, { mode: 'leased' })
    const each = [{ tenant: 'acme', dedupeKey: null }, NONE]
    expect(seen).toEqual([...each, ...each])
  })

  test('are in the messages of claims and pops', async ({ sluice, queue }) => {
    await sluice.enqueue(sluice.ownTransaction, queue, 1, OPTIONS)
    await sluice.enqueue(sluice.ownTransaction, queue, 2)
    const claim = await sluice.claim(queue, { limit: 2 })
    expect(claim?.messages.map(labelsOf)).toEqual([LABELS, NONE])
    const again = await sluice.operate.claims.get(queue, claim?.id ?? '')
    expect(again?.messages.map(labelsOf)).toEqual([LABELS, NONE])
    await claim?.release()
    const popped = await sluice.pop(queue, { limit: 2 })
    expect(popped.map(labelsOf)).toEqual([LABELS, NONE])
  })

  test('are shown of a message that waits, with its retry policy, and are filters', async ({ sluice, queue }) => {
    const options = { ...OPTIONS, retryPolicy: 'mail', ttl: '1h' } as const
    const { id } = await sluice.enqueue(sluice.ownTransaction, queue, 1, options)
    const other = await sluice.enqueue(sluice.ownTransaction, queue, 2, { tenant: 'other' })
    const plain = await sluice.enqueue(sluice.ownTransaction, queue, 3)
    const shown = { ...LABELS, retryPolicy: 'mail', expiresAt: expect.any(Date) }
    expect(await sluice.operate.messages.get(queue, id)).toMatchObject(shown)
    const { messages } = await sluice.operate.messages.list({ queue, order: 'oldest' })
    expect(messages).toMatchObject([shown, { id: other, tenant: 'other', dedupeKey: null }, { id: plain, ...NONE }])
    expect(await sluice.operate.messages.peek(queue)).toMatchObject([shown, { tenant: 'other' }, NONE])
    expect((await sluice.operate.messages.list({ queue, tenant: 'other' })).messages).toMatchObject([{ id: other }])
    expect((await sluice.operate.messages.list({ queue, tenant: 'nobody' })).messages).toEqual([])
  })

  test('are shown of a dead letter', async ({ sluice, queue }) => {
    const { id } = await sluice.enqueue(sluice.ownTransaction, queue, 1, OPTIONS)
    await sluice
      .pipeline(queue)
      .handle(() => ({ kind: 'deadLetter', reason: 'no' }))
      .runOnce()
    expect(await sluice.operate.deadLetters.get(queue, id)).toMatchObject(LABELS)
    expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toMatchObject([{ id, ...LABELS }])
  })
})

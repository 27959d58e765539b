import { describe, expect } from 'vitest'
import { z } from 'zod'
import { createHttpHandler, type HttpHandler } from '../../../src/http.ts'
import { keepingContract } from '../../support/http-contract.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const everybody = { authorize: () => true }
const ACCOUNT = z.object({ account: z.string() })

/** What a schema may return, and JSON cannot hold, or not as it is. */
const outputs = [
  ['a bigint', ACCOUNT.transform(({ account }) => ({ account: BigInt(account) }))],
  ['a reference to what contains it', ACCOUNT.transform((value) => Object.assign({ self: {} }, { self: value }))],
  ['a Map', ACCOUNT.transform((value) => new Map(Object.entries(value)))],
] as const

async function send(handler: HttpHandler, path: string) {
  const headers = { 'content-type': 'application/json' }
  return handler(new Request(`https://example.com/queues/${path}`, { method: 'POST', headers, body: '{}' }))
}

describe('a message is answered with the payload as it was enqueued', () => {
  for (const path of ['pop', 'claims']) {
    test.for(outputs)(`to ${path}, if its schema returns %s`, async ([, schema], { database, queue }) => {
      const sluice = startTestSluice(database, { queues: { [queue]: { schema } } })
      await sluice.enqueue(sluice.ownTransaction, queue, { account: '9007199254740993' })
      const answer = await send(keepingContract(createHttpHandler(sluice, everybody)), `${queue}/${path}`)
      expect(await answer.json()).toMatchObject({ messages: [{ payload: { account: '9007199254740993' } }] })
    })

    // JSON.stringify ends at less than 5,000 levels with the usual stack, and JSON.parse rounds.
    const stored = [
      ['nested deeply', `${'['.repeat(5_000)}${']'.repeat(5_000)}`],
      ['an integer of many digits', '9007199254740993'],
      ['a number beyond 1e308', `1${'0'.repeat(400)}`],
    ] as const
    test.for(stored)(`to ${path}, if it is %s`, async ([, payload], { database, sluice, queue }) => {
      await database.sql('INSERT INTO sluice.message (queue, payload) VALUES ($1, $2::jsonb)', [queue, payload])
      const answer = await send(createHttpHandler(sluice, everybody), `${queue}/${path}`)
      expect(await answer.text()).toContain(`"payload":${payload},`)
    })
  }

  test('with its headers', async ({ sluice, queue }) => {
    await put(sluice, queue, [{ text: 'Ünicode "quoted"' }], { headers: { trace: '4bf9' } })
    const answer = await send(createHttpHandler(sluice, everybody), `${queue}/pop`)
    const message = { payload: { text: 'Ünicode "quoted"' }, headers: { trace: '4bf9' } }
    expect(await answer.json()).toMatchObject({ messages: [message] })
  })
})

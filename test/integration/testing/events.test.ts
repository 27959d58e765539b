import { describe, expect } from 'vitest'
import { z } from 'zod'
import { deadLetter, type EventMessage } from '../../../src/message.ts'
import { deliver } from '../../../src/testing.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { test } from '../../support/streams.ts'

const GROUP = { group: 'billing' } as const

function open(database: TestDatabase) {
  const schema = z.object({ order: z.number(), source: z.string().default('web') })
  return startTestSluice(database, { queues: { mails: {} }, streams: { orders: { schema } } })
}

describe('deliver, to a handler of a group', () => {
  test('hands over events as the stream would, in one transaction that commits', async ({ database }) => {
    const sluice = open(database)
    await database.sql('CREATE TABLE billed (n integer)')
    const seen: EventMessage[] = []
    const outcomes = await deliver(
      sluice,
      'orders',
      async (event, { tx, enqueue }) => {
        seen.push(event)
        await tx.query('INSERT INTO billed VALUES ($1)', [event.payload.order])
        await enqueue('mails', event.payload)
        return event.payload.order === 2 ? deadLetter('no') : undefined
      },
      [
        { payload: { order: 1 }, type: 'order.paid', orderingKey: 'ada', headers: { a: 'b' } },
        { payload: { order: 2 } },
      ],
      GROUP,
    )
    expect(outcomes).toEqual([{ kind: 'ack' }, { kind: 'deadLetter', reason: 'no' }])
    expect(seen).toMatchObject([
      {
        id: 'orders/1',
        stream: 'orders',
        position: 1,
        payload: { order: 1, source: 'web' },
        type: 'order.paid',
        orderingKey: 'ada',
        headers: { a: 'b' },
        attempt: 1,
      },
      { id: 'orders/2', position: 2, type: null },
    ])
    expect(await database.sql('SELECT n FROM billed')).toEqual([{ n: 1 }])
    const mails = "SELECT payload FROM sluice.message WHERE queue = 'mails'"
    expect(await database.sql(mails)).toEqual([{ payload: { order: 1, source: 'web' } }])
  })

  test('throws what the handler throws, and refuses what append refuses', async ({ database }) => {
    const sluice = open(database)
    const give = (payload: unknown, options: object = GROUP, stream = 'orders') =>
      deliver(sluice as never, stream as never, () => raise('no'), [{ payload }] as never, options as never)
    await expect(give({ order: 1 })).rejects.toThrow('no')
    await expect(give({ order: 'x' })).rejects.toMatchObject({ code: 'PAYLOAD_SCHEMA' })
    await expect(give({ order: 1 }, { group: '' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(give({ order: 1 }, { group: 'billing', lease: 1 })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(give({ order: 1 }, GROUP, 'ordres')).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
  })
})

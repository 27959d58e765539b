import { expect } from 'vitest'
import { type RoutesOptions, routes } from '../../../src/handle/routes.ts'
import { put, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

test('a routing table hands a message to the handler whose pattern its type matches, payload as JSON gives it back', async ({
  sluice,
  queue,
}) => {
  const commands = new Steps()
  const events = new Steps()
  sluice
    .pipeline(queue)
    .handle(
      routes([
        { match: 'Test.Event.*', handle: events.handle },
        { match: 'Test.Command.*', handle: commands.handle },
      ]),
    )
    .subscribe()
  const payload = { at: new Date('2026-01-02T03:04:05.678Z'), undefined: undefined, nested: [{ n: 1 }] }
  await put(sluice, queue, [payload], { type: 'Test.Command.Do' })
  const step = await commands.next()
  expect(step.message.type).toBe('Test.Command.Do')
  expect(step.payload).toStrictEqual({ at: '2026-01-02T03:04:05.678Z', nested: [{ n: 1 }] })
  step.end()
  expect(events.taken).toHaveLength(0)
})

test.for([
  [undefined, 'waiting', { retried: 1 }],
  ['deadLetter', 'dead', { dead: 1 }],
  ['retryLater', 'waiting', { retried: 1 }],
  ['ack', 'gone', { acked: 1 }],
] as const)(
  'a message whose type no route matches is not consumed silently: with unmatched %s it is %s',
  async ([unmatched, where, committed], { database, sluice, queue, log }) => {
    const options: RoutesOptions = { unmatched }
    sluice
      .pipeline(queue, LATER)
      .handle(routes([{ match: 'Orders.Paid', handle: () => undefined }], options))
      .subscribe()
    await put(sluice, queue, [1], { type: 'Orders.Payd' })
    expect(await log.first('batch.committed')).toMatchObject(committed)
    const dead = await database.sql('SELECT reason FROM sluice.dead_letters WHERE queue = $1', [queue])
    const waiting = await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])
    const text = 'no route matches the type "Orders.Payd"'
    expect(dead).toEqual(where === 'dead' ? [{ reason: text }] : [])
    expect(waiting).toEqual(where === 'waiting' ? [{ last_error: text }] : [])
  },
)

test('in leased mode the handlers that match get the lease, and the last of them may end the message', async ({
  sluice,
  queue,
  database,
}) => {
  await database.sql('CREATE TABLE routed (key text)')
  await put(sluice, queue, [1], { type: 'Reports.Asked' })
  const keys: string[] = []
  const { counts } = await sluice
    .pipeline(queue, { mode: 'leased' })
    .handle(
      routes([
        { match: 'Reports.*', handle: async (_, { idempotencyKey }) => void keys.push(idempotencyKey) },
        {
          match: '**',
          handle: async (_, { idempotencyKey, transaction }) => {
            await transaction((tx) => tx.query('INSERT INTO routed VALUES ($1)', [idempotencyKey]))
          },
        },
      ]),
    )
    .runOnce()
  expect(counts).toEqual({ acked: 1, retried: 0, snoozed: 0, dead: 0 })
  expect(keys).toHaveLength(1)
  expect(await database.sql('SELECT key FROM routed')).toEqual([{ key: keys[0] }])
})

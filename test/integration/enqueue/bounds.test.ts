import { describe, expect } from 'vitest'
import { ack } from '../../../src/message.ts'
import type { EnqueueOptions } from '../../../src/message-options.ts'
import { test } from '../../support/sluice.ts'

// What the library takes and refuses, the functions in SQL take and refuse too.

const DEDUPE = `dedupe_key => 'k', dedupe_for => $2::interval`

describe('a hundred years, which are 36,525 days, are the longest', () => {
  test.for<[string, (days: string) => object, string]>([
    ['delay', (delay) => ({ delay }), `sluice.enqueue($1, '1', delay => $2::interval)`],
    ['ttl', (ttl) => ({ ttl }), `sluice.enqueue($1, '1', ttl => $2::interval)`],
    ['dedupe.for', (time) => ({ dedupe: { key: 'k', for: time } }), `sluice.enqueue_deduped($1, '1', ${DEDUPE})`],
  ])('%s', async ([, options, call], { database, sluice, queue }) => {
    const inSql = (time: string) => database.sql(`SELECT ${call}`, [queue, time])
    const inLibrary = (days: string) => sluice.enqueue(sluice.ownTransaction, queue, 1, options(days) as EnqueueOptions)
    for (const time of ['100 years', '1200 months', '36525 days']) await expect(inSql(time)).resolves.toHaveLength(1)
    await inLibrary('36525d')
    for (const time of ['100 years 1 second', '1201 months', '36525 days 1 second']) {
      await expect(inSql(time)).rejects.toThrow('to 100 years, received')
    }
    await expect(inLibrary('36526d')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })

  test('of what a stream keeps', async ({ database, sluice, queue }) => {
    const inSql = (time: string) => database.sql(`SELECT sluice.create_stream($1, retain => $2)`, [queue, time])
    await inSql('100 years')
    await sluice.operate.streams.set(queue, { retain: '36525d' })
    await expect(inSql('36525 days 1 second')).rejects.toThrow('retain: expected from zero to 100 years')
    await expect(sluice.operate.streams.set(queue, { retain: '36526d' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
  })

  test('for which a settlement keeps a dedupe key', async ({ database, queue }) => {
    const settle = async (time: string) => {
      await database.sql(`SELECT sluice.enqueue_deduped($1, '1', $2)`, [queue, `for ${time}`])
      const [claim] = await database.sql(`SELECT claim_id FROM sluice.claim($1)`, [queue])
      return database.sql(`SELECT result FROM sluice.claim_settle($1, $2, dedupe_for => $3)`, [
        queue,
        claim!.claim_id,
        time,
      ])
    }
    await expect(settle('100 years')).resolves.toEqual([{ result: 'settled' }])
    await expect(settle('36525 days 1 second')).rejects.toThrow('dedupe_for: expected from zero to 100 years')
    expect(ack({ dedupeFor: '36525d' })).toMatchObject({ dedupeForMs: 3_155_760_000_000 })
    expect(() => ack({ dedupeFor: '36526d' })).toThrow('ack.dedupeFor')
  })
})

test('a ttl of less than a millisecond is refused', async ({ database, sluice, queue }) => {
  await database.sql(`SELECT sluice.enqueue($1, '1', ttl => '1 millisecond')`, [queue])
  await sluice.enqueue(sluice.ownTransaction, queue, 1, { ttl: 1 })
  const inSql = database.sql(`SELECT sluice.enqueue($1, '1', ttl => '999 microseconds')`, [queue])
  await expect(inSql).rejects.toThrow('ttl: expected from 1 millisecond')
  for (const ttl of [0.0004, 0.999]) {
    await expect(sluice.enqueue(sluice.ownTransaction, queue, 1, { ttl })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
  }
})

test.for([
  '\u00A0',
  '\u0085',
  '\u1680',
  '\u2003',
  '\u2028',
  '\u202F',
  '\u205F',
  '\u3000',
  '\uFEFF',
  'a\u3000b',
  'a.\u00A0',
])(
  'a type with a space or a control character of Unicode is refused: %j',
  async (type, { database, sluice, queue }) => {
    for (const call of [
      `sluice.enqueue($1, '1', type => $2)`,
      `sluice.enqueue_deduped($1, '1', 'k', type => $2)`,
      `sluice.schedule($1, $1, '1', every => '1 day', type => $2)`,
      `sluice.change($1, 1, type => $2)`,
    ]) {
      await expect(database.sql(`SELECT ${call}`, [queue, type]), call).rejects.toThrow(
        'type: expected dot-separated text',
      )
    }
    await expect(sluice.enqueue(sluice.ownTransaction, queue, 1, { type })).rejects.toThrow(
      'options.type: expected dot-',
    )
  },
)

test('a type in any letters is taken', async ({ database, sluice, queue }) => {
  for (const type of ['größe.änderung', '注文.支払い', 'a\u200Bb']) {
    await database.sql(`SELECT sluice.enqueue($1, '1', type => $2)`, [queue, type])
    await sluice.enqueue(sluice.ownTransaction, queue, 1, { type })
  }
})

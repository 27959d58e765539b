import { describe, expect } from 'vitest'
import { z } from 'zod'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { test as base, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('from', () => new MemoryReceiver())

const QUICK = { delay: '10ms', maxDelay: '20ms' } as const
const ONCE = { wait: '50ms' } as const
const SOURCE = '3f0c1f6e-6a0b-4b7e-9d6c-0a1b2c3d4e5f'
const bytes = (text: string) => new TextEncoder().encode(text)
const RELAYED = {
  'sluice-message-id': '17',
  'sluice-type': 'order.placed',
  'sluice-ordering-key': 'ada',
  'sluice-schema-version': '3',
  tracestate: 'a=b',
}
const LABELS = { type: 'order.placed', ordering_key: 'ada', schema_version: 3, headers: { tracestate: 'a=b' } }

describe('the dead letter of a received message', () => {
  test('has the type, the key, the version and the headers with which a redrive enqueues it', async ({
    database,
    queue,
    from,
  }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: z.object({ n: z.number() }) } } })
    from.deliver(
      { id: `${SOURCE}/17`, payload: { n: 'one' }, headers: RELAYED },
      { id: `${SOURCE}/18`, body: bytes('no JSON'), headers: { ...RELAYED, 'sluice-message-id': '18' } },
    )
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toMatchObject({ dead: 2 })
    const labels = 'SELECT type, ordering_key, schema_version, headers FROM'
    expect(await database.sql(`${labels} sluice.dead_letter WHERE queue = $1 ORDER BY id`, [queue])).toEqual([
      LABELS,
      LABELS,
    ])
    await sluice.operate.deadLetters.redrive({ queue })
    expect(await database.sql(`${labels} sluice.message WHERE queue = $1`, [queue])).toEqual([LABELS, LABELS])
  })

  test('has what a relay has said also where read throws, and is reported with its type', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    from.deliver({ id: `${SOURCE}/17`, payload: 1, headers: RELAYED })
    const read = () => {
      throw new Error('not of ours')
    }
    await sluice.inbox(queue, { from, read }).runOnce(ONCE)
    expect(
      await database.sql(
        'SELECT type, ordering_key, schema_version, headers FROM sluice.dead_letter WHERE queue = $1',
        [queue],
      ),
    ).toEqual([LABELS])
    expect(log.of('message.dead')).toMatchObject([{ queue, type: 'order.placed', reason: 'Error: not of ours' }])
  })

  test('has the payload that read has made, if the schema of the queue refuses it', async ({
    database,
    queue,
    from,
  }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: { schema: z.object({ n: z.number() }) } } })
    from.deliver({ id: 'a', body: bytes('n: one') })
    await sluice.inbox(queue, { from, read: () => ({ payload: { n: 'one' } }) }).runOnce(ONCE)
    expect(await database.sql('SELECT payload FROM sluice.dead_letter WHERE queue = $1', [queue])).toEqual([
      { payload: { n: 'one' } },
    ])
  })

  test('is the message’s own where the server refuses the message alone', async ({ database, sluice, queue, from }) => {
    await sluice.operate.queues.settings.set(queue, { payloadLimitBytes: 50 })
    from.deliver({ id: 'a', payload: 'x'.repeat(100), type: 'long', orderingKey: 'k', headers: { a: 'b' } })
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toMatchObject({ dead: 1 })
    expect(
      await database.sql('SELECT payload, type, ordering_key, headers FROM sluice.dead_letter WHERE queue = $1', [
        queue,
      ]),
    ).toEqual([{ payload: 'x'.repeat(100), type: 'long', ordering_key: 'k', headers: { a: 'b' } }])
  })

  test('is written in a statement with others, of 32 MiB at most', async ({ database, sluice, queue, from }) => {
    await database.sql(`
      CREATE FUNCTION public.tell_statement() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN NEW.error := statement_timestamp(); RETURN NEW; END';
      CREATE TRIGGER tell_statement BEFORE INSERT ON sluice.dead_letter FOR EACH ROW
        EXECUTE FUNCTION public.tell_statement()`)
    const body = new Uint8Array(20 * 2 ** 20)
    from.deliver({ id: 'a', body: bytes('{') }, { id: 'b', body }, { id: 'c', body }, { id: 'd', body: bytes('{') })
    try {
      expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toMatchObject({ dead: 4 })
    } finally {
      await database.sql('DROP FUNCTION public.tell_statement CASCADE')
    }
    const sent = await database.sql<{ error: string; bytes: number }>(
      `SELECT error, (payload ->> 'bytes')::integer AS bytes FROM sluice.dead_letter WHERE queue = $1 ORDER BY id`,
      [queue],
    )
    expect(sent.map((letter) => letter.bytes)).toEqual([1, body.length, body.length, 1])
    const [a, b, c, d] = sent.map(({ error }) => error)
    expect([b, d]).toEqual([a, c])
    expect(c).not.toBe(a)
  })
})

test('messages that are stored one by one are stored once, although the database fails in between', async ({
  database,
  sluice,
  queue,
  log,
  from,
}) => {
  await sluice.operate.queues.settings.set(queue, { payloadLimitBytes: 50 })
  await database.sql(`
    CREATE TABLE public.is_full ();
    CREATE FUNCTION public.fill() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF to_regclass('public.is_full') IS NOT NULL THEN
          RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100';
        END IF;
        RETURN NEW;
      END $$;
    CREATE TRIGGER fill BEFORE INSERT ON sluice.message FOR EACH ROW WHEN (NEW.payload = '4')
      EXECUTE FUNCTION public.fill()`)
  from.deliver(
    { id: 'a', payload: 1 },
    { payload: 'it has no id' },
    { id: 'c', payload: 'x'.repeat(100) },
    { id: 'd', payload: 4 },
    { id: 'e', payload: 5 },
  )
  const running = sluice.inbox(queue, { from, breaker: QUICK }).start()
  try {
    await waitFor(() => log.of('inbox.unavailable').length >= 2, { what: 'two tries' })
    await database.sql('DROP TABLE public.is_full')
    await waitFor(() => from.acked.length === 5, { what: 'the acks' })
  } finally {
    await running.drain()
    await database.sql('DROP FUNCTION public.fill CASCADE')
  }
  expect(running.statistics()).toEqual({ enqueued: 3, duplicates: 0, dead: 2 })
  expect(await payloadsOf(database, queue)).toEqual([1, 4, 5])
  expect(log.of('message.dead')).toHaveLength(2)
})

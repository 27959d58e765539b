import { afterAll, describe, expect, onTestFinished } from 'vitest'
import { ack, deadLetter } from '../../../src/message.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

/** A character that the encoding has, and one that it lacks. SQL_ASCII looks at no byte, and so takes all. */
const ENCODINGS = [
  { encoding: 'LATIN1', native: 'grün', foreign: '💥' },
  { encoding: 'WIN1252', native: '€ 5', foreign: 'ж' },
  { encoding: 'LATIN9', native: '€ 5', foreign: '¤' },
  { encoding: 'KOI8R', native: 'груша', foreign: 'ü' },
  { encoding: 'EUC_JP', native: '日本', foreign: '💥' },
  { encoding: 'EUC_KR', native: '한국', foreign: '💥' },
  { encoding: 'SQL_ASCII', native: '日本 💥', foreign: undefined },
] as const

for (const { encoding, native, foreign } of ENCODINGS) {
  describe(`a database in ${encoding}`, () => {
    test('gives back what was enqueued, by the library and by SQL', async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database, { name: `${native} ${foreign ?? ''}` })
      const content = { text: native }
      const all = { payload: content, headers: { [native]: native }, type: native.replaceAll(' ', '') }
      const seen: unknown[] = []
      sluice
        .pipeline('q')
        .handle(({ payload, headers, type, orderingKey }) => void seen.push({ payload, headers, type, orderingKey }))
        .subscribe()
      const options = { headers: all.headers, type: all.type, orderingKey: native }
      await put(sluice, 'q', [content], options)
      await database.sql(
        `SELECT sluice.enqueue('q', $1::text::jsonb, type => $2, headers => $3::text::jsonb, ordering_key => $4)`,
        [JSON.stringify(content), options.type, JSON.stringify(options.headers), native],
      )
      await untilEmpty(database, 'q')
      expect(seen).toEqual([
        { ...all, orderingKey: native },
        { ...all, orderingKey: native },
      ])
    })

    test('takes events that it can hold, and refuses others before it is asked', async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database)
      await sluice.streams.set('s')
      const client = await database.pool.connect()
      onTestFinished(() => client.release())
      await client.query('BEGIN')
      if (foreign !== undefined) {
        const refused = sluice.append(client, 's', { text: foreign })
        await expect(refused).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' })
        const many = sluice.appendMany(client, 's', [{ payload: 1 }, { payload: 1, orderingKey: foreign }])
        await expect(many).rejects.toThrow('events[1].orderingKey: expected characters')
      }
      expect(await sluice.append(client, 's', { text: native }, { orderingKey: native })).toBe(1)
      await client.query('COMMIT')
    })

    test('gives back what was claimed, and keeps the words of an error, escaped where it lacks them', async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database)
      const all = { payload: { text: native }, headers: { [native]: native }, orderingKey: native }
      const [id] = await put(sluice, 'q', [all.payload], { headers: all.headers, orderingKey: native })
      const claim = await sluice.claim('q')
      expect(claim?.messages).toMatchObject([all])
      const words = `${native} ${foreign ?? ''}`
      await claim?.settle(id!, deadLetter(words, words))
      const fitted = foreign === undefined ? words : `${native} \\u{${foreign.codePointAt(0)?.toString(16)}}`
      expect(await sluice.operate.deadLetters.get('q', id!)).toMatchObject({ reason: fitted, error: fitted })
    })

    test('keeps the words of an error, escaped where it lacks them, and the batch commits', async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database)
      await put(sluice, 'q', ['fails', 'dies', 'innocent'])
      await sluice
        .pipeline('q', { batchSize: 10, retry: { kind: 'fixed', delay: '1h' } })
        .handle(({ payload }) => {
          const words = `${native} ${foreign ?? ''}`
          if (payload === 'fails') throw new Error(words)
          return payload === 'dies' ? deadLetter(words, words) : ack()
        })
        .runOnce()
      const words = foreign === undefined ? `${native} ` : `${native} \\u{${foreign.codePointAt(0)?.toString(16)}}`
      expect(await database.sql('SELECT last_error FROM sluice.messages')).toEqual([{ last_error: `Error: ${words}` }])
      expect(await database.sql('SELECT reason, error FROM sluice.dead_letters')).toEqual([
        { reason: words, error: words },
      ])
    })

    if (foreign === undefined) return

    test("refuses what it lacks, and the caller's transaction goes on", async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database)
      const client = await database.pool.connect()
      onTestFinished(() => client.release())
      await client.query('BEGIN')
      for (const options of [{ orderingKey: foreign }, { type: foreign }, { headers: { a: [foreign] } }]) {
        const refused = sluice.enqueue(client, 'q', 1, options)
        await expect(refused).rejects.toMatchObject({ code: 'OPTION_INVALID' })
      }
      const refused = sluice.enqueueMany(client, 'q', [{ payload: native }, { payload: { a: `${native}${foreign}` } }])
      await expect(refused).rejects.toMatchObject({
        code: 'PAYLOAD_INVALID',
        message: expect.stringMatching(
          new RegExp(
            `^messages\\[1\\]\\.payload: expected characters of .* ${encoding}, received U\\+[0-9A-F]{4,6}\\.`,
          ),
        ),
      })
      const id = await sluice.enqueue(client, 'q', native)
      await client.query('COMMIT')
      expect(await database.sql('SELECT id::text FROM sluice.message')).toEqual([{ id }])
    })

    test('a handler that enqueues what it lacks fails alone', async () => {
      const database = await databaseIn(encoding)
      const sluice = startTestSluice(database)
      await put(sluice, 'q', ['bad', 'good'])
      const settled = await sluice
        .pipeline('q', { batchSize: 10, maxAttempts: 1 })
        .handle(({ payload }, { enqueue }) =>
          enqueue('next', payload === 'bad' ? foreign : native).then(() => undefined),
        )
        .runOnce()
      expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['deadLetter', 'ack'])
    })
  })
}

// What stands in the table can be read, or one message would stop its queue.
for (const [encoding, bytes] of [
  ['WIN1252', '\\x81'],
  ['SQL_ASCII', '\\xe9'],
] as const) {
  test(`bytes that UTF-8 cannot say are refused where SQL enqueues them, in ${encoding}`, async () => {
    const database = await databaseIn(encoding)
    const enqueue = (payload: string, key: string) =>
      database.sql(
        `SELECT sluice.enqueue('q', to_jsonb(convert_from('${payload}', '${encoding}')), ordering_key => convert_from('${key}', '${encoding}'))`,
      )
    await expect(enqueue(bytes, 'key')).rejects.toThrow(/equivalent in encoding "UTF8"|invalid byte sequence/)
    await expect(enqueue('text', bytes)).rejects.toThrow(/equivalent in encoding "UTF8"|invalid byte sequence/)
    await enqueue('text', 'key')
  })
}

test('an encoding of which there is no way to UTF-8 is refused at once', async () => {
  await using database = await createTestDatabase({ encoding: 'MULE_INTERNAL' })
  const refused = migrate(database.url)
  await expect(refused).rejects.toMatchObject({ code: 'UNREACHABLE' })
  await expect(refused).rejects.toThrow('MULE_INTERNAL')
})

/** What ALTER DATABASE may have set for reasons of the application's, and our statements must not depend on. */
const SETTINGS = {
  extra_float_digits: '-15',
  client_encoding: 'latin1',
  datestyle: 'German, DMY',
  intervalstyle: 'sql_standard',
  timezone: 'Asia/Kathmandu',
  bytea_output: 'escape',
  standard_conforming_strings: 'off',
  escape_string_warning: 'off',
  quote_all_identifiers: 'on',
  xmlbinary: 'hex',
} as const

test('settings of the database change nothing of what a handler sees, to the millisecond', async ({ queue }) => {
  await using database = await createTestDatabase({ migrated: false })
  for (const [name, value] of Object.entries(SETTINGS))
    await database.sql(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET ${name} = '${value}'`)
  await migrate(database.url)
  const sluice = startTestSluice(database)
  const log = new EventLog(sluice.events)
  const ids = [
    ...(await put(sluice, queue, ['unkeyed', '日本 \\ \' "'])),
    ...(await put(sluice, queue, ['keyed'], { orderingKey: 'a\\b', dueAt: new Date('2020-02-03T04:05:06.789Z') })),
    ...(await put(sluice, queue, ['later'], { delay: 1_234 })),
  ]
  const exact = await instantsOf(database, queue)
  const seen = new Map<string, unknown>()
  const calls: unknown[] = []
  sluice
    .pipeline(queue, { batchSize: 10, retry: { kind: 'fixed', delay: 5 } })
    .handle((message, { attempt }) => {
      calls.push(message.payload)
      if (attempt === 1) seen.set(message.id, { due: message.dueAt.getTime(), enqueued: message.enqueuedAt.getTime() })
      if (attempt === 1) throw new Error('back\\slash')
    })
    .subscribe()
  await untilEmpty(database, queue)
  expect(calls).toHaveLength(ids.length * 2)
  expect(Object.fromEntries(seen)).toEqual(exact)
  expect(log.of('batch.released')).toEqual([])
})

test('texts about failures are whole, and without passwords, where a backslash escapes in plain strings', async ({
  queue,
}) => {
  await using database = await createTestDatabase({ migrated: false })
  const off = 'SET standard_conforming_strings = off'
  await database.sql(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} ${off}`)
  await migrate(database.url)
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, due_at, attempt, last_error)
     SELECT $1, '1', clock_timestamp() + interval '1 hour', 1, $2 FROM generate_series(1, 10)`,
    [queue, 'Error:  the session is lost: amqp://me:pw@mq'],
  )
  const [explained] = await database.sql<{ explanation: string }>(
    `SELECT e.explanation FROM sluice.message m, sluice.explain(m.queue, m.id) e WHERE m.queue = $1 LIMIT 1`,
    [queue],
  )
  expect(explained?.explanation).toContain('"Error: the session is lost: amqp://')
  const findings = await database.sql<{ finding: string }>(
    `SELECT finding FROM sluice.doctor() WHERE finding LIKE '%session%'`,
  )
  expect(findings.map(({ finding }) => finding)).toEqual([expect.stringContaining('amqp://me:***@mq')])
})

async function instantsOf(database: TestDatabase, queue: string): Promise<Record<string, unknown>> {
  const rows = await database.sql<{ id: string; due: string; enqueued: string }>(
    `SELECT id::text, extract(epoch FROM due_at)::text AS due, extract(epoch FROM enqueued_at)::text AS enqueued
     FROM sluice.message WHERE queue = $1`,
    [queue],
  )
  const ms = (seconds: string) => Math.trunc(Math.round(Number(seconds) * 1_000_000) / 1_000)
  return Object.fromEntries(rows.map(({ id, due, enqueued }) => [id, { due: ms(due), enqueued: ms(enqueued) }]))
}

/** Migrated once for each encoding. */
const templates = new Map<string, Promise<TestDatabase>>()

afterAll(async () => {
  for (const template of templates.values()) await (await template)[Symbol.asyncDispose]()
})

async function templateIn(encoding: string): Promise<TestDatabase> {
  const template = await createTestDatabase({ encoding })
  await waitFor(() => migrate(template.url), { what: 'the schema' })
  return template
}

async function databaseIn(encoding: string): Promise<TestDatabase> {
  const making = templates.get(encoding) ?? templateIn(encoding)
  templates.set(encoding, making)
  const database = await createTestDatabase({ template: await making })
  onTestFinished(() => database[Symbol.asyncDispose]())
  return database
}

test('an owner that the encoding lacks is refused, and the transaction of the caller goes on', async () => {
  const database = await databaseIn('LATIN1')
  const sluice = startTestSluice(database)
  const url = 'https://a.example'
  await sluice.endpoints.set('q', 'e', { url, owner: 'grün' })
  const tx = await database.pool.connect()
  try {
    await tx.query('BEGIN')
    const refusal = { code: 'OPTION_INVALID', message: expect.stringContaining('owner: expected characters') }
    const event = { type: 'a', payload: 1 }
    await expect(sluice.sendWebhook(tx, 'q', { ...event, owner: 'Łódź' })).rejects.toMatchObject(refusal)
    await expect(sluice.endpoints.set('q', 'f', { url, owner: 'Łódź' }, { tx })).rejects.toMatchObject(refusal)
    expect(await sluice.sendWebhook(tx, 'q', { ...event, owner: 'grün' })).toMatchObject([{ endpoint: 'e' }])
    await tx.query('COMMIT')
  } finally {
    tx.release()
  }
})

test('a schedule that cannot be planned keeps why, escaped where the encoding lacks it', async () => {
  const database = await databaseIn('LATIN1')
  const sluice = startTestSluice(database)
  await database.sql(`SELECT sluice.schedule('s', 'q', '{}', cron => 'whenever')`)
  await sluice.start()
  const error = await waitFor(async () => (await sluice.operate.schedules.get('s'))?.error, { what: 'the error' })
  expect(error).toContain('received "whenever"')
  expect(error).toContain('\\u{2014} caused by')
})

test('a received message that is dead keeps its payload and why, escaped where the encoding lacks it', async () => {
  const database = await databaseIn('LATIN1')
  const sluice = startTestSluice(database)
  const from = new MemoryReceiver()
  from.deliver({ id: 'a', payload: { text: 'grün' } })
  const read = () => raise(new Error('not of ours', { cause: new Error('no tenant') }))
  await sluice.inbox('q', { from, read }).runOnce({ wait: '50ms' })
  expect(await database.sql('SELECT payload, reason FROM sluice.dead_letter')).toEqual([
    { payload: { text: 'grün' }, reason: 'Error: not of ours \\u{2014} caused by Error: no tenant' },
  ])
})

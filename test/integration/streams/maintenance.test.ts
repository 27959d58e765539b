import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { append, jumpSegment, segmentsOf } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'

describe('a stream', () => {
  test.for([
    ["segment => '10000 years'", 'segment: expected from 1 second to 100 years, received 10000 years'],
    ["segment => '999 milliseconds'", 'segment: expected from 1 second to 100 years, received 00:00:00.999'],
    ["retain => '10000 years'", 'retain: expected from zero to 100 years, received 10000 years'],
    ["retain => '-1 day'", 'retain: expected from zero to 100 years, received -1 days'],
  ])('with %s is refused, made or changed', async ([setting, message], { database, queue }) => {
    const set = () => database.sql(`SELECT sluice.create_stream($1, ${setting})`, [queue])
    await expect(set()).rejects.toMatchObject({ code: '22023', message })
    await database.sql('SELECT sluice.create_stream($1)', [queue])
    await expect(set()).rejects.toMatchObject({ code: '22023', message })
    await expect(
      database.sql('UPDATE sluice.stream SET segment_ms = 4000000000000 WHERE stream = $1', [queue]),
    ).rejects.toMatchObject({ code: '23514' })
  })

  test('that is not made uses up no number', async ({ database, queue }) => {
    const idOf = async (stream: string) => {
      await database.sql('SELECT sluice.create_stream($1)', [stream])
      const [row] = await database.sql<{ id: number }>('SELECT id FROM sluice.stream WHERE stream = $1', [stream])
      return row?.id ?? 0
    }
    const id = await idOf(queue)
    await expect(database.sql("SELECT sluice.create_stream('not a name')")).rejects.toMatchObject({ code: '23514' })
    await expect(database.sql('SELECT sluice.create_stream($1, 3)', [`${queue}x`])).rejects.toThrow('partitions')
    expect(await idOf(`${queue}y`)).toBe(id + 1)
  })
})

describe('maintenance', () => {
  test('of one stream that fails keeps no other from being kept, and is reported', async ({
    database,
    sluice,
    queue,
  }) => {
    const [bad, good] = [`${queue}-bad`, `${queue}-good`]
    for (const stream of [bad, good]) {
      await database.sql("SELECT sluice.create_stream($1, segment => '1 second')", [stream])
      await append(database, stream, 1)
    }
    await breakSegments(database, bad)
    await expect(sluice.operate.maintain()).rejects.toThrow('broken')
    expect(await segmentsOf(database, good)).toHaveLength(3)
    expect(await segmentsOf(database, bad)).toHaveLength(2)
    await append(database, good, 1)
    await jumpSegment(database, good)
    expect(await segmentsOf(database, good)).toHaveLength(4)
    await database.sql('DROP TRIGGER break ON sluice.segment')
  })

  test('opens no segment of which an open append cannot know the table', async ({ database, queue }) => {
    await database.sql('SELECT sluice.create_stream($1, 1)', [queue])
    await append(database, queue, 1)
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    onTestFinished(() => client.end())
    await attachLate(database, queue)
    await client.query('BEGIN')
    await client.query("SELECT sluice.append($1, '2')", [queue])
    // The table of the segment after this one comes only now.
    await jumpSegment(database, queue)
    await jumpSegment(database, queue)
    await jumpSegment(database, queue)
    await client.query("SELECT sluice.append($1, '3')", [queue])
    await client.query('COMMIT')
    expect(await segmentsOf(database, queue)).toHaveLength(3)
    await jumpSegment(database, queue)
    expect(await segmentsOf(database, queue)).toHaveLength(4)
  })
})

/** All open segments have lasted for long enough, and what would close one of this stream fails. */
async function breakSegments(database: TestDatabase, stream: string): Promise<void> {
  await database.sql("UPDATE sluice.segment SET opened_at = opened_at - interval '1 hour'")
  await database.sql(
    `CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF EXISTS (SELECT FROM sluice.stream s WHERE s.id = NEW.stream_id AND s.stream = '${stream}') THEN RAISE EXCEPTION 'broken'; END IF;
       RETURN NEW;
     END $$`,
  )
  await database.sql('CREATE TRIGGER break BEFORE UPDATE ON sluice.segment FOR EACH ROW EXECUTE FUNCTION break()')
}

/** As after a pass that opened the next segment and was rolled back, before it had attached the one after it: the sequence stays there. */
async function attachLate(database: TestDatabase, stream: string): Promise<void> {
  await database.sql('SELECT setval(s.positions, 999999999, true) FROM sluice.stream s WHERE s.stream = $1', [stream])
  await database.sql("SELECT sluice.append($1, '1')", [stream])
}

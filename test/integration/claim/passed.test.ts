import { describe, expect } from 'vitest'
import { Floors } from '../../../src/claim/floors.ts'
import { claimSlots } from '../../../src/table/claim/claim-ordered.ts'
import { MOST_WALKED } from '../../../src/table/claim/claim-slots.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { test as base, type ClaimSession, idsOf, keysOf, put } from '../../support/rows/claim-session.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { waitFor } from '../../support/wait.ts'

const HOUR_US = 3_600_000_000
const HOUR_MS = HOUR_US / 1_000

/** A process, and a slot in which 300 messages of the key `held` are before one of the key `free`. */
const test = base.extend('slot', async ({ database, queue, begin }) => {
  const { slot, same } = await keysOf(database)
  const [held, free, other] = same
  const session = await begin()
  await ensureSlots(session.execute, queue, [slot])
  await session.commit()
  const ids = await put(
    database,
    queue,
    Array.from({ length: 300 }, () => ({ key: held })),
  )
  const [after] = await put(database, queue, [{ key: free }])
  const process = new Claims(session, queue, slot)
  return { slot, held, free, other, ids, after, process }
})

class Claims {
  readonly floors = new Floors()
  readonly #session: ClaimSession
  readonly #queue: string

  constructor(session: ClaimSession, queue: string, slot: number) {
    this.#session = session
    this.#queue = queue
    this.floors.learn([], [slot])
  }

  /** What a claim takes, and gives back. */
  async take(bottom = false): Promise<readonly string[]> {
    const { execute, rollBack } = this.#session
    const taken = await claimSlots(execute, this.#queue, this.floors.slots(bottom), 10, this.floors.passed())
    await rollBack()
    this.floors.observed(taken)
    return idsOf(taken)
  }

  /**
   * Claims until it takes this message first. How many claims that is depends on the whole server: whatever ran during a walk
   * and has ended since, also in another database, makes it necessary again.
   */
  async until(id: string | undefined, beforeEach?: () => Promise<unknown>): Promise<number> {
    let claims = 0
    const isTaken = async () => {
      await beforeEach?.()
      claims += 1
      return (await this.take())[0] === id
    }
    await waitFor(isTaken, { what: `a claim that takes ${id}` })
    return claims
  }

  /** Where the next claim begins. */
  get passed(): readonly (string | undefined)[] {
    return this.floors.passed().map(({ lastId }) => lastId)
  }
}

async function hold({ sql }: TestDatabase, queue: string, slot: number, orderingKey: string, forUs: number) {
  const [row] = await sql<{ now: string }>(NOW_US)
  const execute = async ({ text }: { text: string }, params: readonly unknown[]) => sql(text, params)
  const nowUs = Number(row!.now)
  await holdKeys(execute, queue, [{ slot, orderingKey, messageId: '1', untilUs: nowUs + forUs }], nowUs)
  return nowUs + forUs
}

const NOW_US = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now'
const LEASE = `UPDATE sluice.message SET lease = 1::bigint << 50, due_at = clock_timestamp() + interval '1 h' WHERE id = $1`

/** Puts a leased message of this key before one that is there. Returns its id. */
async function leaseBefore(database: TestDatabase, queue: string, id: string, key: string): Promise<string> {
  const before = String(BigInt(id) - 1_000_000n)
  const text = `INSERT INTO sluice.message (queue, id, ordering_key, payload) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, '{}')`
  await database.sql(text, [queue, before, key])
  await database.sql(LEASE, [before])
  return before
}

async function addRows({ sql }: TestDatabase, queue: string, key: string, count: number): Promise<void> {
  const text = `INSERT INTO sluice.message (queue, ordering_key, payload) SELECT $1, $2, '{}' FROM generate_series(1, $3::integer)`
  await sql(text, [queue, key, count])
}

async function untilUs({ sql }: TestDatabase, instantUs: number): Promise<void> {
  const due = () => sql('SELECT 1 WHERE extract(epoch FROM clock_timestamp()) * 1000000 > $1::bigint', [instantUs])
  await waitFor(async () => (await due()).length === 1, { what: 'the hold to end' })
}

describe('the rows behind a held key', () => {
  test('are read once, and then passed over, also by a claim from the bottom', async ({ database, queue, slot }) => {
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    for (const bottom of [false, false, true]) expect(await slot.process.take(bottom)).toEqual([slot.after])
    expect(slot.process.passed).toEqual([slot.ids.at(-1)])
  })

  test('are there again when the hold has ended, the first one first', async ({ database, queue, slot }) => {
    const endUs = await hold(database, queue, slot.slot, slot.held, 500_000)
    await slot.process.take()
    await untilUs(database, endUs)
    expect(await slot.process.take()).toEqual(slot.ids.slice(0, 10))
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([slot.after])
    expect(slot.process.passed).toEqual([slot.ids.at(-1)])
  })

  test('are passed as far as they are held, when one of two keys is free again', async ({ database, queue, slot }) => {
    const [later] = await put(database, queue, [{ key: slot.other }, { key: slot.other }])
    await put(
      database,
      queue,
      Array.from({ length: 200 }, () => ({ key: slot.held })),
    )
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    await hold(database, queue, slot.slot, slot.free, HOUR_US)
    const endUs = await hold(database, queue, slot.slot, slot.other, 500_000)
    await slot.process.take()
    await untilUs(database, endUs)
    expect((await slot.process.take())[0]).toBe(later)
  })

  test('are read again when a transaction has ended that may have put one among them', async ({
    database,
    queue,
    begin,
    slot,
  }) => {
    const [writer, bystander] = [await begin(), await begin()]
    await bystander.client.query('SELECT pg_current_xact_id()')
    const late = await put(
      {
        sql: async <Row>(text: string, params: readonly unknown[] = []) =>
          (await writer.client.query(text, [...params])).rows as Row[],
      },
      queue,
      [{ key: slot.free }],
    )
    const more = await put(
      database,
      queue,
      Array.from({ length: 150 }, () => ({ key: slot.held })),
    )
    const [last] = await put(database, queue, [{ key: slot.free }])
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, slot.after])
    for (let claims = 0; claims < 3; claims += 1) expect(await slot.process.take()).toEqual([last])
    expect(slot.process.passed).toEqual([more.at(-1)])
    await writer.commit()
    expect(await slot.process.take()).toEqual([...late, last])
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, late[0]])
    for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([last])
    await bystander.commit()
    for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([last])
  })

  test.for([
    ['2033-05-18 03:33:20.123457+00', 2_000_000_000_123_457],
    ['9999-12-31 23:59:59+00', Date.UTC(2255, 0, 1) * 1_000],
  ] as const)(
    'tell when a delay among them ends, whatever the database sets: %s',
    async ([due, us], { database, queue, begin, slot }) => {
      await hold(database, queue, slot.slot, slot.held, HOUR_US)
      await database.sql('UPDATE sluice.message SET due_at = $2::timestamptz WHERE id = $1', [slot.after, due])
      const { client, execute } = await begin()
      await client.query("SET LOCAL extra_float_digits = -15; SET LOCAL datestyle = 'German, DMY'")
      const { walks } = await claimSlots(execute, queue, [{ slot: slot.slot, id: '0' }], 10)
      expect(walks.map(({ last, dueUs }) => ({ last, dueUs }))).toEqual([{ last: slot.after, dueUs: us }])
    },
  )

  test('give way to a message below them that was redriven', async ({ database, queue, slot }) => {
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    await slot.process.take()
    await database.sql(
      `INSERT INTO sluice.message (queue, id, ordering_key, payload) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, '{}')`,
      [queue, String(BigInt(slot.ids[0]!) - 1_000_000n), slot.other],
    )
    expect((await slot.process.take(true))[0]).toBe(String(BigInt(slot.ids[0]!) - 1_000_000n))
  })

  describe('do not hide a message among them that has not been tried', () => {
    const among = test.extend('delayed', async ({ database, queue, slot }) => {
      const [delayed] = await put(database, queue, [{ key: slot.other, dueInMs: HOUR_MS }])
      await addRows(database, queue, slot.held, 200)
      const [last] = await put(database, queue, [{ key: slot.free }])
      await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, slot.after])
      await hold(database, queue, slot.slot, slot.held, 2 * HOUR_US)
      for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([last])
      const remove = () => database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, delayed])
      return { id: delayed!, last, remove }
    })

    among.for(['1 h', '30 s'])(
      'and is to run now, behind 120 that are to run in %s instead of 2 h',
      async (delay, { database, queue, slot, delayed }) => {
        const rows = Array.from({ length: 120 }, () => ({ key: slot.free, dueInMs: 2 * HOUR_MS }))
        const moved = await put(database, queue, rows)
        const [asked] = await put(database, queue, [{ key: slot.other, dueInMs: 2 * HOUR_MS }])
        await delayed.remove()
        await addRows(database, queue, slot.held, 200)
        const [end] = await put(database, queue, [{ key: slot.free }])
        await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, delayed.last])
        for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([end])
        await database.sql('SELECT sluice.reschedule($1, id, $3::interval) FROM unnest($2::bigint[]) AS m (id)', [
          queue,
          moved,
          delay,
        ])
        await database.sql('SELECT sluice.run_now($1, $2)', [queue, asked])
        expect(await slot.process.take()).toEqual([asked, end])
      },
    )

    among('and is to run now', async ({ database, queue, slot, delayed }) => {
      const passed = slot.process.passed
      await database.sql('SELECT sluice.run_now($1, $2)', [queue, delayed.id])
      for (let claims = 0; claims < 2; claims += 1) {
        expect(await slot.process.take()).toEqual([delayed.id, delayed.last])
      }
      await delayed.remove()
      for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([delayed.last])
      expect(slot.process.passed.at(-1), 'they are passed over again').toBe(passed.at(-1))
    })

    among('and is due sooner', async ({ database, queue, slot, delayed }) => {
      await database.sql(`SELECT sluice.reschedule($1, $2, interval '300 ms')`, [queue, delayed.id])
      const text = 'SELECT (extract(epoch FROM due_at) * 1000000)::bigint AS due FROM sluice.message WHERE id = $1'
      const [row] = await database.sql<{ due: string }>(text, [delayed.id])
      await slot.process.take()
      await untilUs(database, Number(row!.due))
      expect(await slot.process.take()).toEqual([delayed.id, delayed.last])
    })

    among('and was redriven', async ({ database, queue, slot, delayed }) => {
      await delayed.remove()
      await slot.process.take()
      const text = `INSERT INTO sluice.dead_letter
        (queue, id, priority, ordering_key, schema_version, payload, headers, attempt, reason, enqueued_at)
        VALUES ($1, $2, 5, $3, 1, '{}', '{}', 1, 'broken', clock_timestamp())`
      await database.sql(text, [queue, delayed.id, slot.other])
      await database.sql('SELECT sluice.redrive($1)', [queue])
      expect(await slot.process.take()).toEqual([delayed.id, delayed.last])
    })

    among(
      'and comes back in the middle of more than a claim reads',
      async ({ database, queue, begin, slot, delayed }) => {
        const bystanders = [await begin(), await begin()] as const
        for (const { client } of bystanders) await client.query('SELECT pg_current_xact_id()')
        await addRows(database, queue, slot.held, MOST_WALKED * 2)
        const [gone] = await put(database, queue, [{ key: slot.other }])
        await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = ANY ($2)', [
          queue,
          [delayed.id, delayed.last, gone],
        ])
        await addRows(database, queue, slot.held, MOST_WALKED * 2)
        const [end] = await put(database, queue, [{ key: slot.free }])
        await slot.process.until(end)
        await database.sql(
          `INSERT INTO sluice.message (queue, id, ordering_key, payload, redriven) VALUES ($1, $2, $3, '{}', true)`,
          [queue, gone, slot.other],
        )
        for (const bystander of bystanders) {
          await bystander.commit()
          await slot.process.take()
        }
        await slot.process.until(gone)
      },
    )

    among('unless its own key is held', async ({ database, queue, slot, delayed }) => {
      await hold(database, queue, slot.slot, slot.other, HOUR_US)
      await database.sql('SELECT sluice.run_now($1, $2)', [queue, delayed.id])
      for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([delayed.last])
    })
  })

  test('are passed over while a lease closes their key, and not longer: the first one comes first', async ({
    database,
    queue,
    slot,
  }) => {
    const head = await leaseBefore(database, queue, slot.ids[0]!, slot.held)
    await database.sql('UPDATE sluice.message SET ordering_key = $2 WHERE id = $1', [slot.after, slot.held])
    await addRows(database, queue, slot.held, MOST_WALKED * 2)
    const [last] = await put(database, queue, [{ key: slot.free }])
    await slot.process.until(last)
    const [row] = await database.sql<{ now: string }>(NOW_US)
    await untilUs(database, Number(row!.now) + 1_100_000)
    await slot.process.take()
    const ends = slot.process.floors.passed().map((stretch) => stretch.untilUs)
    expect(Math.min(...ends), 'they need not be read again').toBeGreaterThan(Number(row!.now) + HOUR_US / 2)
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, head])
    expect(await slot.process.take()).toEqual(slot.ids.slice(0, 10))
  })

  test('do not hide the message that has closed their key, when somebody gives it back', async ({
    database,
    queue,
    slot,
  }) => {
    await put(database, queue, [{ key: slot.other }])
    await hold(database, queue, slot.slot, slot.other, HOUR_US)
    await hold(database, queue, slot.slot, slot.free, HOUR_US)
    await addRows(database, queue, slot.other, 200)
    const head = slot.ids[150]!
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND ordering_key = $2 AND id < $3', [
      queue,
      slot.held,
      head,
    ])
    await addRows(database, queue, slot.held, 200)
    await database.sql(LEASE, [head])
    for (let claims = 0; claims < 2; claims += 1) expect(await slot.process.take()).toEqual([])
    expect(slot.process.passed).toHaveLength(1)
    await database.sql('UPDATE sluice.message SET lease = 0, due_at = clock_timestamp() WHERE id = $1', [head])
    expect((await slot.process.take())[0]).toBe(head)
  })

  test('do not hide what comes later, when one of the first was due and is to be tried again', async ({
    database,
    queue,
    slot,
  }) => {
    await addRows(database, queue, slot.held, MOST_WALKED * 2)
    const [last] = await put(database, queue, [{ key: slot.other }])
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    const delay = (by: string) =>
      database.sql('UPDATE sluice.message SET due_at = clock_timestamp() + $2::interval WHERE id = $1', [
        slot.after,
        by,
      ])
    // Before each claim: it must not end before `last` is found.
    await slot.process.until(last, () => delay('2 s'))
    await slot.process.until(slot.after)
    await delay('1 h')
    await slot.process.until(last)
  })

  test('do not hide what comes later, when there are more than a claim reads', async ({ database, queue, slot }) => {
    await addRows(database, queue, slot.held, MOST_WALKED * 2)
    const [last] = await put(database, queue, [{ key: slot.free }])
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, slot.after])
    await hold(database, queue, slot.slot, slot.held, HOUR_US)
    expect(await slot.process.until(last)).toBeGreaterThan(2)
  })
})

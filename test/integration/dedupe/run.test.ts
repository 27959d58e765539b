import { describe, expect } from 'vitest'
import { type DedupedMessage, deadLetter, type LeasedContext, type Message, retryLater } from '../../../src/index.ts'
import { ask, type Stage } from '../../support/dedupe/key-states.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

/** Handles a queue in one mode; the first call waits until the test lets it go on. */
function handleIn(mode: 'transactional' | 'leased', { sluice, queue }: Stage, ends: readonly unknown[] = []) {
  const begun = deferred()
  const release = deferred()
  const handled: unknown[] = []
  let running = 0
  let most = 0
  const handle = async (message: Message) => {
    running += 1
    most = Math.max(most, running)
    const at = handled.push(message.payload) - 1
    if (at === 0) {
      begun.resolve()
      await release.promise
    }
    running -= 1
    return ends[at] as undefined
  }
  const pipeline =
    mode === 'leased'
      ? sluice.pipeline(queue, { mode, concurrency: 4 }).handle(handle)
      : sluice.pipeline(queue, { concurrency: 4 }).handle(handle)
  pipeline.start()
  return { begun: begun.promise, release: release.resolve, handled, most: () => most }
}

describe.each(['transactional', 'leased'] as const)('a message that is asked for again in a %s handler', (mode) => {
  test('runs exactly once more, with the last content, after the first', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'requeue')
    const work = handleIn(mode, stage)
    await work.begun
    for (let n = 1; n <= 5; n++) {
      const { outcome } = await ask(stage, `again ${n}`, 'requeue')
      expect(outcome).toBe(n === 1 ? 'requeued' : 'updated')
    }
    work.release()
    await untilEmpty(database, queue)
    expect(work.handled).toEqual(['first', 'again 5'])
    expect(work.most()).toBe(1)
  })

  test('runs once more after the retry of the first', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'requeue')
    const work = handleIn(mode, stage, [retryLater({ after: 20 })])
    await work.begun
    await ask(stage, 'again', 'requeue')
    work.release()
    await untilEmpty(database, queue)
    expect(work.handled).toEqual(['first', 'first', 'again'])
  })

  test.for([
    ['fails', () => Promise.reject(new Error('not yet'))],
    ['is put off', () => Promise.resolve(retryLater({ after: 0 }))],
  ] as const)(
    'runs once more, however often the first %s and is asked for again',
    async ([, end], { database, sluice, queue }) => {
      const stage = { database, sluice, queue }
      await ask(stage, 'first', 'requeue')
      const handled: unknown[] = []
      const outcomes: string[] = []
      const handle = async ({ payload }: Message) => {
        if (handled.push(payload) > 4) return undefined
        outcomes.push((await ask(stage, `again ${handled.length}`, 'requeue')).outcome)
        return end()
      }
      const options = { retry: { kind: 'fixed', delay: 0 } } as const
      const pipeline =
        mode === 'leased'
          ? sluice.pipeline(queue, { ...options, mode }).handle(handle)
          : sluice.pipeline(queue, options).handle(handle)
      pipeline.start()
      await untilEmpty(database, queue)
      expect(outcomes).toEqual(['requeued', 'updated', 'updated', 'updated'])
      expect(handled).toEqual(['first', 'first', 'first', 'first', 'first', 'again 4'])
    },
  )

  test('is there to be run now and to be cancelled with the first, which waits for its retry', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    const { id: first } = await ask(stage, 'first', 'requeue')
    const isPutOff = async () => (await sluice.operate.messages.status(queue, { id: first })).state !== 'in_flight'
    const work = handleIn(mode, stage, [retryLater({ after: '1h' }), retryLater({ after: '1h' })])
    await work.begun
    const { id } = await ask(stage, 'again', 'requeue')
    expect(await sluice.operate.messages.status(queue, { dedupeKey: 'K' })).toMatchObject({ requeuedId: id })
    work.release()
    await waitFor(isPutOff, { what: 'the first to be put off' })
    expect(await sluice.operate.messages.runNow(queue, { id: first })).toMatchObject({ result: 'changed' })
    await waitFor(() => work.handled.length === 2, { what: 'the first again' })
    await waitFor(isPutOff, { what: 'the first to be put off again' })
    await sluice.operate.messages.cancel(queue, { dedupeKey: 'K' })
    expect(work.handled).toEqual(['first', 'first'])
    await untilEmpty(database, queue)
    expect(await ask(stage, 'other', 'reject')).toMatchObject({ outcome: 'added' })
  })

  test('runs once more when the first has died', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'requeue')
    const work = handleIn(mode, stage, [deadLetter('broken')])
    await work.begun
    await ask(stage, 'again', 'requeue')
    work.release()
    await untilEmpty(database, queue)
    expect(work.handled).toEqual(['first', 'again'])
  })

  test('keeps its key after success, and not after death', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'reject', '1h')
    const work = handleIn(mode, stage)
    await work.begun
    expect(await windows(database, queue)).toBe(0)
    work.release()
    await untilEmpty(database, queue)
    expect(await windows(database, queue)).toBe(1)
    expect(await ask(stage, 'again', 'reject')).toMatchObject({ outcome: 'duplicate', state: 'completed' })

    const dying = { ...stage, queue: `${queue}.dies` }
    await ask(dying, 'first', 'reject', '1h')
    const dead = handleIn(mode, dying, [deadLetter('broken')])
    dead.release()
    await untilEmpty(database, dying.queue)
    expect(await windows(database, dying.queue)).toBe(0)
    expect(await ask(dying, 'again', 'reject')).toMatchObject({ outcome: 'added' })
  })
})

const windows = async (database: TestDatabase, queue: string) =>
  (await database.sql('SELECT FROM sluice.kept_key WHERE queue = $1 AND until > clock_timestamp()', [queue])).length

describe('the key of a message that succeeds is kept', () => {
  test('by the transaction of a leased handler', async ({ database, sluice, queue }) => {
    await ask({ database, sluice, queue }, 1, 'reject', '1h')
    const handle = (_: Message, { transaction }: LeasedContext) =>
      transaction((tx) => tx.query('SELECT 1').then(() => undefined))
    sluice.pipeline(queue, { mode: 'leased' }).handle(handle).start()
    await untilEmpty(database, queue)
    expect(await windows(database, queue)).toBe(1)
  })

  test('by a claim and by pop, and not by a claim that buries it', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'reject', '1h')
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages)
    expect(await windows(database, queue)).toBe(1)
    await ask({ ...stage, queue: `${queue}.pop` }, 1, 'reject', '1h')
    await sluice.pop(`${queue}.pop`)
    expect(await windows(database, `${queue}.pop`)).toBe(1)
    await ask({ ...stage, queue: `${queue}.dead` }, 1, 'reject', '1h')
    const dead = await sluice.claim(`${queue}.dead`)
    await dead?.settle(dead.messages, deadLetter('broken'))
    expect(await windows(database, `${queue}.dead`)).toBe(0)
  })
})

describe('in a handler', () => {
  test('the key of its own message is asked for, and comes after it', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 3, 'requeue')
    const handled: number[] = []
    sluice
      .pipeline(queue)
      .handle(async ({ payload, attempt }, { enqueue }) => {
        const left = Number(payload)
        handled.push(left)
        if (left === 0) return
        const dedupe = { key: 'K', onDuplicate: 'requeue' } as const
        expect(await enqueue(queue, left - 1, { dedupe })).toMatchObject({ outcome: 'requeued' })
        // What it asks for again is its own, although it has just been changed.
        expect(await enqueue(queue, left - 1, { dedupe })).toMatchObject({ outcome: 'updated' })
        if (left === 2 && attempt === 1) return retryLater({ after: 0 })
        return undefined
      })
      .start()
    await untilEmpty(database, queue)
    // What a failed handler has enqueued does not exist.
    expect(handled).toEqual([3, 2, 2, 1, 0])
  })
})

describe('enqueueMany with dedupe keys', () => {
  test('that are taken, and only rejected, waits for no producer of them, and writes nothing', async ({
    database,
    queue,
    sluice,
  }) => {
    const messages = (keys: readonly string[], onDuplicate: 'reject' | 'throttle') =>
      keys.map((key) => ({ payload: key, dedupe: { key, for: '1h', onDuplicate } }) as const)
    await sluice.enqueueMany(sluice.ownTransaction, queue, messages(['a', 'b'], 'reject'))
    const pointers = 'SELECT ctid::text, xmin::text, xmax::text FROM sluice.dedupe WHERE queue = $1 ORDER BY key'
    const before = await database.sql(pointers, [queue])
    const producer = await database.pool.connect()
    try {
      await producer.query('BEGIN')
      await producer.query(`SELECT FROM sluice.dedupe WHERE queue = $1 AND key = 'a' FOR UPDATE`, [queue])
      for (const policy of ['reject', 'throttle'] as const) {
        const all = messages(['b', 'a', policy, 'a', policy], policy)
        const results = await sluice.enqueueMany(sluice.ownTransaction, queue, all)
        expect(results.map(({ outcome }) => outcome)).toEqual([
          'duplicate',
          'duplicate',
          'added',
          'duplicate',
          'duplicate',
        ])
      }
    } finally {
      await producer.query('ROLLBACK')
      producer.release()
    }
    expect((await database.sql(pointers, [queue])).slice(1, 2)).toEqual(before.slice(1))
  })

  const message = (key: string, payload: unknown, onDuplicate: 'reject' | 'update' = 'reject'): DedupedMessage => ({
    payload,
    dedupe: { key, onDuplicate },
  })

  test('answers for each, two of one key one after the other', async ({ database, sluice, queue }) => {
    const { id } = await ask({ database, sluice, queue }, 'was there', 'reject')
    const results = await sluice.enqueueMany(sluice.ownTransaction, queue, [
      message('b', 1),
      message('K', 2),
      message('a', 3),
      message('b', 4, 'update'),
    ])
    expect(results.map(({ outcome }) => outcome)).toEqual(['added', 'duplicate', 'added', 'updated'])
    expect(results[1]?.id).toBe(id)
    expect(results[3]?.id).toBe(results[0]?.id)
    expect(await payloadsOf(database, queue)).toEqual(['was there', 4, 3])
    const sent = await sluice.enqueueMany(sluice.ownTransaction, queue, [message('a', 5), message('c', 6)])
    expect(sent.map(({ outcome }) => outcome)).toEqual(['duplicate', 'added'])
    expect(await sluice.enqueueMany(sluice.ownTransaction, queue, [] as DedupedMessage[])).toEqual([])
  })

  test('beside others with the same keys in other orders, none of which waits in a circle', async ({
    database,
    sluice,
    queue,
  }) => {
    const keys = Array.from({ length: 20 }, (_, n) => `key ${n}`)
    const calls = Array.from({ length: 16 }, (_, n) => [...keys.slice(n), ...keys.slice(0, n)])
    const results = await Promise.all(
      calls.map((order) =>
        sluice.enqueueMany(
          sluice.ownTransaction,
          queue,
          order.map((key) => message(key, key)),
        ),
      ),
    )
    expect(results.flat().filter(({ outcome }) => outcome === 'added')).toHaveLength(keys.length)
    expect(await payloadsOf(database, queue)).toHaveLength(keys.length)
  })

  test('refuses messages without a key among them', async ({ sluice, queue }) => {
    await expect(
      sluice.enqueueMany(sluice.ownTransaction, queue, [message('a', 1), { payload: 2 } as unknown as DedupedMessage]),
    ).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/^messages: expected dedupe in all of them or in none, received it in 1 of 2\. /),
    })
  })
})

describe('a dead letter that is redriven', () => {
  async function bury({ sluice, queue }: Stage): Promise<void> {
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages, deadLetter('broken'))
  }

  test('has its key again', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    const { id } = await ask(stage, 1, 'reject')
    await bury(stage)
    await database.sql('SELECT sluice.prune_dedupe()')
    await sluice.operate.deadLetters.redrive({ queue })
    expect(await ask(stage, 2, 'reject')).toEqual({ id, outcome: 'duplicate', state: 'ready' })
  })

  test('leaves the key to another one that has it', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'reject')
    await bury(stage)
    const { id } = await ask(stage, 2, 'reject')
    await sluice.operate.deadLetters.redrive({ queue })
    expect(await payloadsOf(database, queue)).toEqual([1, 2])
    expect(await ask(stage, 3, 'reject')).toEqual({ id, outcome: 'duplicate', state: 'ready' })
  })
})

describe('a policy', () => {
  test('that adds another behind a message without an order answers that it cannot', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'reject')
    await sluice.claim(queue)
    expect(await ask(stage, 2, 'requeue')).toMatchObject({ outcome: 'duplicate', state: 'in_flight' })
    expect(await payloadsOf(database, queue)).toEqual([1])
  })

  test('that adds another takes the ordering key of the one in hand', async ({ database, sluice, queue }) => {
    const enqueue = (orderingKey: string) =>
      sluice.enqueue(sluice.ownTransaction, queue, 1, { orderingKey, dedupe: { key: 'K', onDuplicate: 'requeue' } })
    await enqueue('customer 7')
    await sluice.claim(queue)
    expect(await enqueue('customer 8')).toMatchObject({ outcome: 'requeued' })
    const rows = await database.sql('SELECT ordering_key FROM sluice.message WHERE queue = $1', [queue])
    expect(rows).toEqual([{ ordering_key: 'customer 7' }, { ordering_key: 'customer 7' }])
  })

  test('debounce lets a message fall due when nobody has asked for the time of its delay', async ({
    database,
    sluice,
    queue,
  }) => {
    const at = async (delay: number) => {
      await sluice.enqueue(sluice.ownTransaction, queue, delay, {
        delay,
        dedupe: { key: 'K', onDuplicate: 'debounce' },
      })
      const [row] = await database.sql<{ left: number }>(
        'SELECT extract(epoch FROM due_at - clock_timestamp())::float8 AS left FROM sluice.message WHERE queue = $1',
        [queue],
      )
      return row?.left ?? 0
    }
    expect(await at(60_000)).toBeLessThan(60)
    expect(await at(3_600_000)).toBeGreaterThan(3_500)
    // Never sooner than it was.
    expect(await at(1_000)).toBeGreaterThan(3_500)
    expect(await payloadsOf(database, queue)).toEqual([1_000])
  })
})

import { describe, expect } from 'vitest'
import { deadLetter } from '../../../src/message.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { raise, Steps } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const AT_ONCE = { kind: 'fixed', delay: 0 } as const

/** Whether somebody waits for a lock. */
async function isBlocked({ sql }: TestDatabase): Promise<boolean> {
  const blocked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return (await sql(blocked)).length > 0
}

/** An ordering key of another partition. */
async function keyBeside({ sql }: TestDatabase, key: string): Promise<string> {
  const [beside] = await sql<{ key: string }>(
    `SELECT k.key FROM (SELECT 'key ' || n AS key FROM generate_series(1, 100) AS n) k
     WHERE sluice_private.event_partition(k.key, 4::smallint) <> sluice_private.event_partition($1, 4::smallint) LIMIT 1`,
    [key],
  )
  return beside!.key
}

describe('a dead letter of a group', () => {
  test('is not handled while later events of its key are in hand', async ({ database, sluice, stream }) => {
    const queue = `${stream}:all`
    const steps = new Steps()
    const running = sluice
      .pipeline(stream, { group: 'all', concurrency: 4 })
      .handle((event, context) => steps.handle(event, context))
      .start()
    const [position] = await append(database, stream, [
      [1, 'a'],
      [2, 'a'],
    ])
    await steps.endNext(deadLetter('no'))
    await steps.endNext()
    await waitFor(async () => (await sluice.operate.deadLetters.list({ queue })).deadLetters.length > 0, {
      what: 'the dead letter',
    })
    await append(database, stream, [
      [3, 'a'],
      [4, 'a'],
    ])
    const third = await steps.next()
    const redriving = sluice.operate.deadLetters.redrive({ queue })
    const isHandled = () => steps.payloads.length > 3
    await waitFor(async () => isHandled() || (await isBlocked(database)), { what: 'the redrive to wait' })
    await append(database, stream, [[5, 'a']])
    expect(steps.payloads).toEqual([1, 2, 3])
    third.end()
    await steps.endNext()
    expect(await redriving).toBe(1)
    expect((await steps.endNext()).message).toMatchObject({ payload: 1, position })
    await steps.endNext()
    expect(steps.payloads).toEqual([1, 2, 3, 4, 1, 5])
    await running.drain()
  })

  test('is redriven at once where no batch has its partition in hand', async ({ database, sluice, stream }) => {
    const queue = `${stream}:all`
    await append(database, stream, [[1, 'a'], [2]])
    await sluice
      .pipeline(stream, { group: 'all' })
      .handle(() => deadLetter('no'))
      .runOnce()
    const steps = new Steps()
    const running = sluice
      .pipeline(stream, { group: 'all', concurrency: 2 })
      .handle((event, context) => steps.handle(event, context))
      .start()
    await append(database, stream, [[3, await keyBeside(database, 'a')]])
    const third = await steps.next()
    expect(await sluice.operate.deadLetters.redrive({ queue })).toBe(2)
    await steps.endNext()
    await steps.endNext()
    third.end()
    expect(steps.payloads.toSorted()).toEqual([1, 2, 3])
    await running.drain()
  })
})

test('a redrive by a filter waits for no partition of a dead letter that it leaves', async ({
  database,
  sluice,
  stream,
}) => {
  const queue = `${stream}:all`
  const key = await keyBeside(database, 'a')
  await append(database, stream, [
    ['left', 'a'],
    ['wanted', key],
  ])
  await sluice
    .pipeline(stream, { group: 'all' })
    .handle(({ payload }) => deadLetter(String(payload)))
    .runOnce()
  const steps = new Steps()
  const running = sluice
    .pipeline(stream, { group: 'all', concurrency: 2 })
    .handle((event, context) => steps.handle(event, context))
    .start()
  await append(database, stream, [['later', 'a']])
  const later = await steps.next()
  expect(await sluice.operate.deadLetters.redrive({ queue, reason: 'wanted' })).toBe(1)
  expect((await steps.endNext()).message).toMatchObject({ payload: 'wanted' })
  later.end()
  await running.drain()
})

describe('a group that is deleted', () => {
  test.for([
    ['the log', false],
    ['its queue', true],
  ] as const)(
    'takes along what a batch of %s buries meanwhile: a new one of its name begins without',
    async ([, isRetry], { database, sluice, stream }) => {
      const steps = new Steps()
      const running = sluice
        .pipeline(stream, { group: 'all', retry: AT_ONCE })
        .handle((event, context) => steps.handle(event, context))
        .start()
      await append(database, stream, [[1, 'a']])
      if (isRetry) (await steps.next()).endBy(() => raise('no'))
      const step = await steps.next()
      const deleting = sluice.operate.groups.delete(stream, 'all')
      await waitFor(() => isBlocked(database), { what: 'the deletion to wait' })
      step.end(deadLetter('no'))
      await deleting
      await sluice.groups.set(stream, 'all')
      expect(await sluice.operate.groups.list({ stream })).toMatchObject([{ deferred: 0, dead: 0 }])
      await running.stop()
    },
  )
})

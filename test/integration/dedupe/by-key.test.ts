import { describe, expect } from 'vitest'
import { ask, KEY_STATES, type KeyState } from '../../support/dedupe/key-states.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { test } from '../../support/sluice.ts'

const KEY = { dedupeKey: 'K' }
const LEFT = 'SELECT payload FROM sluice.message WHERE queue = $1 ORDER BY id'

describe('cancel by a dedupe key', () => {
  const STATES: readonly (readonly [KeyState, string, string])[] = [
    ['nobody', 'nothing', 'unknown'],
    ['ready', 'cancelled', 'ready'],
    ['scheduled', 'cancelled', 'scheduled'],
    ['retrying', 'cancelled', 'retrying'],
    ['in a transactional handler', 'asked', 'in_flight'],
    ['in a leased handler', 'cancelled', 'in_flight'],
    ['in a claim', 'cancelled', 'in_flight'],
    ['in a claim, asked for again', 'cancelled', 'in_flight'],
    ['in a claim, with the one after it cancelled', 'cancelled', 'in_flight'],
    ['in a claim, with the one after it expired', 'cancelled', 'in_flight'],
    ['completed, kept', 'nothing', 'unknown'],
    ['completed, not kept', 'nothing', 'unknown'],
    ['dead', 'nothing', 'dead'],
    ['cancelled', 'nothing', 'unknown'],
    ['expired', 'cancelled', 'expired'],
  ]

  test.for(STATES)('%s: %s', async ([given, result, state], { database, sluice, queue }) => {
    await KEY_STATES[given]({ database, sluice, queue }, 'requeue')
    expect(await sluice.operate.messages.cancel(queue, KEY)).toEqual({ result, state })
    if (result === 'cancelled') expect(await database.sql(LEFT, [queue])).toEqual([])
  })

  test('frees the key', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'reject')
    await sluice.operate.messages.cancel(queue, KEY)
    expect(await ask(stage, 2, 'reject')).toMatchObject({ outcome: 'added' })
  })

  test('of one in hand stops the one that comes after it too, although its handler goes on', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await KEY_STATES['in a transactional handler'](stage, 'requeue')
    expect(await ask(stage, 'again', 'requeue')).toMatchObject({ outcome: 'requeued' })
    expect(await sluice.operate.messages.cancel(queue, KEY)).toEqual({ result: 'asked', state: 'in_flight' })
    // Its handler hears of it, and then the first is gone as well.
    expect(await database.sql(LEFT, [queue])).not.toContainEqual({ payload: 'again' })
  })

  test('waits for no handler that has enqueued with the key', async ({ database, sluice, queue }) => {
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      await ask({ database, sluice, queue }, 1, 'reject', undefined, client)
      expect(await sluice.operate.messages.cancel(queue, KEY)).toEqual({ result: 'nothing', state: 'unknown' })
      await client.query('COMMIT')
    } finally {
      client.release()
    }
    expect(await sluice.operate.messages.cancel(queue, KEY)).toEqual({ result: 'cancelled', state: 'ready' })
  })
})

describe('a change by a dedupe key', () => {
  test('is for the newest of its messages, which waits', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 'first', 'requeue')
    const claim = await sluice.claim(queue)
    const { id } = await ask(stage, 'second', 'requeue')
    const changed = { result: 'changed', state: 'ready' }
    expect(await sluice.operate.messages.change(queue, KEY, { payload: 'changed' })).toEqual(changed)
    expect(await sluice.operate.messages.reschedule(queue, KEY, { delay: '1h' })).toEqual(changed)
    expect(await sluice.operate.messages.get(queue, id)).toMatchObject({ payload: 'changed', state: 'scheduled' })
    expect(await sluice.operate.messages.runNow(queue, KEY)).toEqual({ result: 'changed', state: 'scheduled' })
    expect(await sluice.operate.messages.get(queue, id)).toMatchObject({ state: 'ready' })
    await claim?.settle(claim.messages)
    expect((await sluice.pop(queue)).map(({ payload }) => payload)).toEqual(['changed'])
  })

  test('is for the one in hand where that is the only one, and refused', async ({ database, sluice, queue }) => {
    await KEY_STATES['in a claim, with the one after it cancelled']({ database, sluice, queue })
    expect(await sluice.operate.messages.change(queue, KEY, { priority: 0 })).toEqual({
      result: 'refused',
      state: 'in_flight',
    })
    expect(await sluice.operate.messages.runNow(queue, { dedupeKey: 'other' })).toEqual({
      result: 'refused',
      state: 'unknown',
    })
  })
})

test('every call takes an id, { id } or { dedupeKey }', async ({ database, sluice, queue }) => {
  const { id } = await ask({ database, sluice, queue }, 1, 'reject')
  const { operate } = sluice
  for (const which of [id, { id }, KEY]) {
    expect(await operate.messages.status(queue, which)).toMatchObject({ id, state: 'ready' })
    expect(await operate.messages.change(queue, which, { priority: 1 })).toMatchObject({ result: 'changed' })
    expect(await operate.messages.runNow(queue, which)).toMatchObject({ result: 'changed' })
    expect(await operate.messages.reschedule(queue, which, { delay: 0 })).toMatchObject({ result: 'changed' })
  }
  expect(await operate.messages.cancel(queue, { id })).toMatchObject({ result: 'cancelled' })
  for (const [wrong, says] of [
    [{}, 'cancel: expected an id or a dedupeKey, received neither'],
    [{ id, dedupeKey: 'K' }, 'cancel: expected an id or a dedupeKey, received both'],
    [{ dedupeKey: '' }, 'cancel.dedupeKey: expected'],
    [{ key: 'K' }, 'cancel'],
    [17, 'cancel.id: expected'],
  ] as const)
    await expect(operate.messages.cancel(queue, wrong as never)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining(says),
    })
  const none = database.sql('SELECT sluice.cancel($1)', [queue])
  await expect(none).rejects.toThrow('expected one of the two, received none')
})

test('sluice message takes --dedupe-key instead of a number', async ({ database, sluice, queue }) => {
  const cli = (...args: string[]) => runCli(['message', ...args], { DATABASE_URL: database.url })
  await ask({ database, sluice, queue }, 1, 'reject')
  const key = ['--dedupe-key', 'K']
  const both = ['change', queue, '1', ...key, '--ttl', '1h']
  const done = await Promise.all([
    cli('reschedule', queue, ...key, '--delay', '1h'),
    cli('change', queue, ...key, '--priority', '0'),
    cli('change', queue, ...key),
    cli(...both),
  ])
  expect(done).toMatchObject([
    { code: 0, stdout: 'Rescheduled.\n' },
    { code: 0, stdout: 'Changed.\n' },
    { code: 2, stderr: expect.stringContaining('something to change') },
    { code: 2, stderr: expect.stringContaining('received both') },
  ])
  expect(await cli('cancel', queue, ...key)).toMatchObject({ code: 0, stdout: 'Cancelled. It was scheduled.\n' })
  expect(await cli('cancel', queue, ...key)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has no message with the dedupe key "K".'),
  })
})

import { describe, expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, test } from '../../support/sluice.ts'

describe('a message that a session of its own has locked', () => {
  for (const [what, text] of [
    ['a transaction', 'BEGIN'],
    ['a savepoint', 'BEGIN; SAVEPOINT one'],
  ] as const) {
    test(`by ${what} is in flight for whoever asks, and each answer names the session`, async ({
      database,
      queue,
      sluice,
    }) => {
      const [id = '', other = ''] = await put(sluice, queue, [1, 2])
      const session = await database.pool.connect()
      try {
        await session.query(text)
        await session.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [id])
        const [{ pid }] = (await session.query('SELECT pg_backend_pid() AS pid')).rows
        const locked = { id, state: 'in_flight', lockedBy: pid }
        const { operate } = sluice
        expect(await operate.messages.status(queue, id)).toMatchObject(locked)
        expect(await operate.messages.get(queue, id)).toMatchObject({ ...locked, worker: null, claim: null })
        expect(await operate.messages.peek(queue)).toMatchObject([
          locked,
          { id: other, state: 'ready', lockedBy: null },
        ])
        expect((await operate.messages.list({ queue, state: 'in_flight' })).messages).toMatchObject([locked])
        expect(await operate.messages.cancel(queue, id)).toEqual({ result: 'asked', state: 'in_flight' })
        expect(await operate.messages.change(queue, id, { priority: 0 })).toEqual({
          result: 'refused',
          state: 'in_flight',
        })
        expect(await operate.messages.runNow(queue, id)).toEqual({ result: 'refused', state: 'in_flight' })
        expect((await sluice.claim(queue))?.messages).toMatchObject([{ id: other }])
      } finally {
        await session.query('ROLLBACK')
        session.release()
      }
      expect(await sluice.operate.messages.status(queue, id)).toMatchObject({ state: 'ready', lockedBy: null })
    })
  }

  test('is shown with the claim that has it in hand by sluice peek', async ({ database, queue, sluice }) => {
    await put(sluice, queue, [1])
    const claim = await sluice.claim(queue)
    const { stdout } = await runCli(['peek', queue], { DATABASE_URL: database.url })
    expect(stdout).toMatch(new RegExp(` in_flight .* claim ${claim?.id} `))
  })

  test('is shown with the session on the command line', async ({ database, queue, sluice }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const [id = ''] = await put(sluice, queue, [1])
    const session = await database.pool.connect()
    try {
      await session.query('BEGIN')
      const { rows } = await session.query(
        'SELECT pg_backend_pid() AS pid FROM sluice.message WHERE id = $1 FOR UPDATE',
        [id],
      )
      const process = `process ${rows[0].pid}`
      expect((await cli('message', 'status', queue, id)).stdout).toContain(`${process} of the server`)
      expect((await cli('peek', queue)).stdout).toContain(`locked by ${process}`)
      expect((await cli('message', 'cancel', queue, id)).stdout).toContain(`sluice message status ${queue} ${id}`)
    } finally {
      await session.query('ROLLBACK')
      session.release()
    }
  })
})

import { describe, expect, onTestFinished } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** A queue with one message of a key in a claim that is over, and a client that settles it and does not commit. */
const stalled = test.extend('stalled', async ({ database, sluice, queue }) => {
  const { same, other } = await keysOf(database)
  await put(sluice, queue, ['first', 'second'], { orderingKey: same[0] })
  const claim = await sluice.claim(queue, { limit: 1, lease: '1s' })
  const client = await database.pool.connect()
  onTestFinished(() => client.release())
  await client.query('BEGIN')
  await client.query('SELECT FROM sluice.claim_settle($1, $2)', [queue, claim!.id])
  const isOver = () =>
    database.sql('SELECT 1 FROM sluice.claim WHERE id = $1 AND expires_at < clock_timestamp()', [claim!.id])
  await waitFor(async () => (await isOver()).length > 0, { what: 'the claim to be over' })
  await put(sluice, queue, ['same slot'], { orderingKey: same[1] })
  await put(sluice, queue, ['other slot'], { orderingKey: other })
  await put(sluice, queue, ['no key'])
  return { commit: () => client.query('COMMIT') }
})

const PIPELINES = [
  ['transactional', (sluice: Sluice, queue: string) => sluice.pipeline(queue)],
  ['leased', (sluice: Sluice, queue: string) => sluice.pipeline(queue, { mode: 'leased' })],
] as const

const OTHERS = ['no key', 'other slot', 'same slot']

describe('a client that stands still with a message of a key, in the transaction of its own writes,', () => {
  for (const [mode, pipelineOf] of PIPELINES) {
    stalled(`stops that key alone, beside a ${mode} pipeline`, async ({ database, queue, stalled: { commit } }) => {
      const handled: unknown[] = []
      const pipeline = pipelineOf(startTestSluice(database), queue)
        .handle(({ payload }) => void handled.push(payload))
        .start()
      await waitFor(() => handled.length === OTHERS.length, { what: 'the other messages to be handled' })
      expect(handled.toSorted()).toEqual(OTHERS)
      await commit()
      await waitFor(() => handled.includes('second'), { what: 'the next message of the key to be handled' })
      await pipeline.drain()
      expect(handled).not.toContain('first')
    })
  }

  stalled('stops that key alone, for claims', async ({ sluice, queue, stalled: { commit } }) => {
    const taken = async () => (await sluice.claim(queue, { limit: 10 }))?.messages.map(({ payload }) => payload)
    expect((await taken())?.toSorted()).toEqual(OTHERS)
    await commit()
    expect(await taken()).toEqual(['second'])
  })
})

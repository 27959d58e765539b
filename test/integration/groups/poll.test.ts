import { describe, expect } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { append, test as base } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

/** `test` with an operator whose sessions notify nobody, and a stream of one partition. */
const test = base
  .extend('silent', ({ database }) => {
    const url = new URL(database.url)
    url.searchParams.set('options', '-c sluice.notify=off')
    return startTestSluice({ url: url.href })
  })
  .extend('one', async ({ database, stream }) => {
    await database.sql('SELECT sluice.create_stream($1, 1)', [`${stream}.one`])
    return `${stream}.one`
  })

interface Change {
  readonly what: string
  readonly onFailure?: 'defer' | 'stop'
  /** Before the worker sleeps. */
  readonly before?: (operator: Sluice, stream: string) => Promise<unknown>
  readonly change: (operator: Sluice, stream: string) => Promise<unknown>
  /** What the worker handles then, of 1 and 2, which have one key, and 3. 1 has failed for good. */
  readonly handled: readonly number[]
}

const CHANGES: readonly Change[] = [
  {
    what: 'its group is moved back',
    change: ({ operate }, stream) => operate.groups.seek(stream, 'all', 'start'),
    handled: [1, 2, 3],
  },
  {
    what: 'its group is deleted and made again',
    change: async (operator, stream) => {
      await operator.operate.groups.delete(stream, 'all')
      await operator.groups.set(stream, 'all', { from: 'start' })
    },
    handled: [1, 2, 3],
  },
  {
    what: 'its failed event is to be tried again',
    onFailure: 'stop',
    change: ({ operate }, stream) => operate.groups.retry(stream, 'all'),
    handled: [1, 2, 3],
  },
  {
    what: 'its failed event is skipped',
    onFailure: 'stop',
    change: ({ operate }, stream) => operate.groups.skip(stream, 'all', 1),
    handled: [2, 3],
  },
  {
    what: 'its group is to defer from now on',
    onFailure: 'stop',
    change: (operator, stream) => operator.groups.set(stream, 'all', { onFailure: 'defer' }),
    handled: [1, 2, 3],
  },
  {
    what: 'its dead letter is redriven',
    change: ({ operate }, stream) => operate.deadLetters.redrive({ queue: `${stream}:all` }),
    handled: [1],
  },
  {
    what: 'its group goes on after a pause, and was moved back meanwhile',
    before: ({ operate }, stream) => operate.groups.pause(stream, 'all'),
    change: async ({ operate }, stream) => {
      await operate.groups.seek(stream, 'all', 'start')
      await operate.groups.resume(stream, 'all')
    },
    handled: [1, 2, 3],
  },
]

describe('a worker that sleeps and is not notified', () => {
  test.for(CHANGES)('finds out by its poll that $what', async (given, { database, sluice, silent, one }) => {
    const { onFailure = 'defer', before, change, handled } = given
    await sluice.groups.set(one, 'all', { from: 'start', onFailure })
    await append(database, one, [[1, 'a'], [2, 'a'], [3]])
    const seen: unknown[] = []
    let isBroken = true
    const running = startTestSluice(database, { pollInterval: '100ms' })
      .pipeline(one, { group: 'all', maxAttempts: 1 })
      .handle(({ payload }) => {
        if (isBroken && payload === 1) raise('no')
        seen.push(payload)
      })
      .start()
    await raisedFlag(database, `/${one}`)
    await onlyPolls(database)
    await before?.(silent, one)
    isBroken = false
    seen.length = 0
    await change(silent, one)
    await expect.poll(() => seen).toEqual(handled)
    await running.stop()
  })
})

/**
 * Resolves after ten polls of streams, one every 100 ms: all that the last claim has left for a timer of its own, of 250 ms at
 * most, is over by then.
 */
async function onlyPolls({ sql }: TestDatabase): Promise<void> {
  const polls = new Set<string>()
  const read = async () => {
    const rows = await sql<{ at: string }>(
      `SELECT query_start::text AS at FROM pg_stat_activity
       WHERE datname = current_database() AND query LIKE '%sluice_private.stream_head(%' AND pid <> pg_backend_pid()`,
    )
    for (const { at } of rows) polls.add(at)
    return polls.size > 10
  }
  await waitFor(read, { what: 'ten polls of a stream' })
}

import { Socket } from 'node:net'
import type pg from 'pg'
import { expect } from 'vitest'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred } from '../../support/wait.ts'

/** What a process has written to its connections when it stands still between a claim of a sweep and its COMMIT. */
function standStillBeforeCommit(url: string, stoodStill: () => void): pg.ClientConfig {
  const stream = () => {
    const socket = new Socket()
    let claims = false
    let still = false
    // Not before: connect() puts the prototype's method back.
    socket.once('connect', () => {
      const { write } = socket
      socket.write = ((chunk: Buffer | string, ...rest: unknown[]) => {
        claims ||= chunk.includes('synchronous_commit')
        if (claims && !still && chunk.includes('COMMIT\0')) {
          still = true
          stoodStill()
        }
        return still || Reflect.apply(write, socket, [chunk, ...rest])
      }) as typeof socket.write
    })
    return socket
  }
  return { connectionString: url, stream }
}

test('what a leased claim has locked is free after the time of a lease, if its process stands still before COMMIT', async ({
  database,
  queue,
}) => {
  const still = deferred()
  const frozen = startTestSluice(database, {
    connection: standStillBeforeCommit(database.url, () => still.resolve()),
    // Otherwise it finds out by itself that nothing is answered.
    connectTimeout: '60s',
  })
  const other = startTestSluice(database)
  await put(other, queue, [1])
  await put(other, queue, [2], { orderingKey: 'k' })
  const options = { mode: 'leased', lease: '1s' } as const
  frozen
    .pipeline(queue, options)
    .handle(() => undefined)
    .start()
  await still.promise
  const stoodStillAt = performance.now()
  other
    .pipeline(queue, options)
    .handle(() => undefined)
    .start()
  await untilEmpty(database, queue)
  // A claim that the server carries out may take ten seconds.
  expect(performance.now() - stoodStillAt).toBeLessThan(9_000)
})

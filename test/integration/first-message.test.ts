import { expect, onTestFinished, vi } from 'vitest'
import { createSluice } from '../../src/index.ts'
import { untilSessions } from '../support/servers/sessions.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

const OPEN = `
  SELECT application_name AS name FROM pg_stat_activity
  WHERE datname = current_database() AND application_name LIKE 'sluice%' ORDER BY name`

/** Not even a slow machine lets the second pass after which the listener is opened whatever happens. */
function stopTimers(): void {
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
}

test('a process that finds a message when it starts handles it before it opens its listener', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1])
  await sluice.stop()
  await untilSessions(database, 'sluice', 0)
  stopTimers()
  const handled = Promise.withResolvers<readonly string[]>()
  startTestSluice({ url: database.url })
    .pipeline(queue)
    .handle(async (_message, { tx }) => {
      const { rows } = await tx.query<{ name: string }>(OPEN)
      handled.resolve(rows.map(({ name }) => name))
    })
    .start()
  expect(await handled.promise).toEqual(['sluice', 'sluice control'])
  await untilSessions(database, 'sluice listener', 1)
})

test('a runOnce() that finds all at once opens no listener', async ({ database, sluice, queue }) => {
  await put(sluice, queue, [1, 2])
  stopTimers()
  const once = createSluice({ connection: database.url, log: false })
  const opened: string[] = []
  await once
    .pipeline(queue)
    .handle(async (_message, { tx }) => {
      const { rows } = await tx.query<{ name: string }>(OPEN)
      opened.push(...rows.map(({ name }) => name))
    })
    .runOnce()
  await once.stop()
  expect(opened).not.toContain('sluice listener')
})

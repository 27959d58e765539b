import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { Explanation, Reason } from '../../../src/index.ts'
import type { TestDatabase } from '../servers/database.ts'
import { put, type startTestSluice } from '../sluice.ts'
import { deferred } from '../wait.ts'

/** The words of an explanation, the headline first. */
export function words({ headline, others }: Explanation): readonly string[] {
  return [headline, ...others].map(({ reason }) => reason)
}

/** One of its reasons. */
export function reasonOf({ headline, others }: Explanation, word: string): Reason {
  const found = [headline, ...others].find(({ reason }) => reason === word)
  if (found === undefined) throw new Error(`expected the reason ${word}, received ${words({ headline, others })}`)
  return found
}

type TestSluice = ReturnType<typeof startTestSluice>

/** A worker of a queue that has a message in hand until it may go on, so that it claims no other. */
export async function busyWorker(
  sluice: TestSluice,
  queue: string,
  options: Readonly<Record<string, unknown>> = {},
  message: Parameters<typeof put>[3] = { priority: 9 },
): Promise<{ readonly id: string; readonly release: () => void }> {
  const [began, go] = [deferred(), deferred()]
  const pipeline = sluice.pipeline(queue, { concurrency: 1, batchSize: 1, ...options } as never).handle(async () => {
    began.resolve()
    await go.promise
  })
  const [id = ''] = await put(sluice, queue, ['in hand'], message)
  pipeline.start()
  await began.promise
  return { id, release: () => go.resolve() }
}

/** A session with a name, which ends with the test. */
export async function sessionOf(database: TestDatabase, name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: name })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** A session with a transaction open, and its server process. */
export async function openSession(
  database: TestDatabase,
  name: string,
): Promise<{ readonly session: pg.Client; readonly pid: number }> {
  const session = await sessionOf(database, name)
  await session.query('BEGIN')
  const { rows } = await session.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return { session, pid: rows[0]!.pid }
}

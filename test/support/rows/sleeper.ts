import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { TestDatabase } from '../servers/database.ts'
import { waitFor } from '../wait.ts'

/** Somebody who sleeps on a queue: holds its waiting flag, and hears what is notified. */
export interface FlaggedSleeper {
  /** How often that was, by the end of all that has committed so far. */
  readonly wakeUps: () => Promise<number>
}

const TRY = 'SELECT pg_try_advisory_lock(746501, hashtext($1)) AS taken'

/** Nobody else who consumes the queue may hold the flag. */
export async function sleepOn(database: TestDatabase, queue: string): Promise<FlaggedSleeper> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  const heard: string[] = []
  client.on('notification', ({ payload = '' }) => void heard.push(payload))
  await client.query('LISTEN sluice')
  await waitFor(async () => (await client.query(TRY, [queue])).rows[0]?.taken, { what: `the flag of ${queue}` })
  let ends = 0
  return {
    wakeUps: async () => {
      const end = `!end of test ${++ends}`
      await client.query('SELECT pg_notify($1, $2)', ['sluice', end])
      await waitFor(() => heard.includes(end), { what: 'its own notification' })
      return heard.filter((payload) => payload === queue).length
    },
  }
}

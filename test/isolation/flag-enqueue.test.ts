import { describe, expect, onTestFinished } from 'vitest'
import {
  commitEnqueue,
  enqueue,
  type FlagStep,
  flagScenario,
  lookForMessages,
  lower,
  raise,
  rollBackEnqueue,
} from '../support/permutations/flag.ts'
import { explore } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { FLAG_LOWERED_SILENTLY } from '../support/twins/statements.ts'

const enqueuer: readonly FlagStep[] = [enqueue, commitEnqueue]

describe('a process that is about to sleep beside enqueues', () => {
  test('sees or hears each that commits', async ({ stage }) => {
    const twice = { first: enqueuer, second: enqueuer, watcher: [raise, lookForMessages, raise, lookForMessages] }
    const explored = await explore(stage, flagScenario(stage, twice))
    expect(summary(explored)).toEqual({ interleavings: 210, waited: 0, wrong: [] })
  })

  test('sees or hears one that commits beside one that rolls back', async ({ stage }) => {
    const sessions = { first: enqueuer, second: [enqueue, rollBackEnqueue], watcher: [raise, lookForMessages] }
    const explored = await explore(stage, flagScenario(stage, sessions))
    expect(summary(explored)).toEqual({ interleavings: 90, waited: 0, wrong: [] })
  })

  test('and relies on the flag of another, sees or hears it too', async ({ stage }) => {
    const sessions = { enqueuer, watcherA: [raise, lookForMessages, lower()], watcherB: [raise, lookForMessages] }
    const explored = await explore(stage, flagScenario(stage, sessions))
    expect(summary(explored)).toEqual({ interleavings: 210, waited: 0, wrong: [] })
  })

  test('sleeps for ever if it does not look again under its flag', async ({ stage }) => {
    const explored = await explore(stage, flagScenario(stage, { enqueuer, watcher: [lookForMessages, raise] }))
    expect(explored.interleavings).toBe(6)
    expect(wrongs(explored)).toEqual(['watcher sleeps beside a message, and relies on its flag'])
  })

  test('sleeps for ever if who lowers the flag does not tell', async ({ stage }) => {
    const watcherA = [raise, lookForMessages, lower(...FLAG_LOWERED_SILENTLY)]
    const sessions = { enqueuer, watcherA, watcherB: [raise, lookForMessages] }
    const explored = await explore(stage, flagScenario(stage, sessions))
    expect(wrongs(explored)).toEqual(["watcherB sleeps beside a message, and relies on another's flag"])
  })

  test('sleeps for ever if an enqueue only looks whether the flag is up, and locks nothing', async ({ stage }) => {
    await lookAtFlagOnly(stage.database)
    const watcher = [raise, lookForMessages]
    const explored = await explore(stage, flagScenario(stage, { enqueuer, watcher }))
    expect(wrongs(explored)).toEqual(['watcher sleeps beside a message, and relies on its flag'])
  })
})

async function lookAtFlagOnly({ sql }: TestDatabase): Promise<void> {
  const [{ text } = { text: '' }] = await sql<{ text: string }>(
    `SELECT pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE tgname = 'message_wake'`,
  )
  const trying = /NOT pg_try_advisory_xact_lock_shared\(746501, hashtext\(new\.queue\)\)/
  expect(text).toMatch(trying)
  onTestFinished(async () => void (await sql(`DROP TRIGGER message_wake ON sluice.message; ${text}`)))
  await sql(`
    CREATE FUNCTION sluice.flag_is_up(queue text) RETURNS boolean LANGUAGE sql AS $$
      SELECT EXISTS (
        SELECT FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = 746501 AND l.objid::bigint = hashtext(queue)::bigint & 4294967295
          AND l.mode = 'ExclusiveLock' AND l.granted
      )
    $$;
    DROP TRIGGER message_wake ON sluice.message;
    ${text.replace(trying, 'sluice.flag_is_up(new.queue)')}`)
}

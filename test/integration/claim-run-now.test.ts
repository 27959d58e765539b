import { describe, expect } from 'vitest'
import { claimFreeSlots, claimSlots } from '../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../src/table/claim/queue-scan.ts'
import type { Execute } from '../../src/table/statement.ts'
import { type Rewrite, rewriting } from '../support/permutations/rewrite.ts'
import { test as base, type ClaimSession, idsOf, keysOf, put } from '../support/rows/claim-session.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { HOLDS_OF_NEWEST_ROW, PAUSED_CLAIM } from '../support/twins/statements.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('keys', ({ database }) => keysOf(database))

type Claims = (execute: Execute, queue: string, slot: number) => Promise<{ readonly rows: readonly { id: string }[] }>

const CLAIMS: readonly (readonly [name: string, claim: Claims])[] = [
  ['claim_free_slots', (execute, queue, slot) => claimFreeSlots(execute, queue, [{ slot, id: '0' }], 10)],
  ['claim_slots', (execute, queue, slot) => claimSlots(execute, queue, [{ slot, id: '0' }], 10, [])],
]

interface Held {
  readonly queue: string
  readonly slot: number
  /** The message that waits for its retry, and the one behind it. */
  readonly one: string
  readonly two: string
}

/** Makes the first message due while a claim has its snapshot and no lock yet. Resolves with what the claim takes. */
async function besideClaim(
  database: TestDatabase,
  { queue, one, slot }: Held,
  operation: string,
  { session: { execute, pid }, claim, twin = [] }: { session: ClaimSession; claim: Claims; twin?: readonly Rewrite[] },
): Promise<readonly string[]> {
  const holder = await database.pool.connect()
  try {
    await holder.query('SELECT pg_advisory_lock($1, hashtext($2))', [pid, queue])
    const taken = claim(rewriting(execute, [...PAUSED_CLAIM, ...twin]), queue, slot)
    const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = $1 AND NOT granted`
    await waitFor(async () => (await database.sql(waiting, [pid])).length === 1, { what: 'the claim to wait' })
    await database.sql(operation, [queue, one])
    await holder.query('SELECT pg_advisory_unlock($1, hashtext($2))', [pid, queue])
    return idsOf(await taken)
  } finally {
    holder.release()
  }
}

describe.for(CLAIMS)('%s beside an operation that makes a held message due', ([statement, claim]) => {
  const prepared = test.extend('held', async ({ database, queue, begin, keys }): Promise<Held> => {
    const { slot } = keys
    const key = keys.same[0]!
    const session = await begin()
    await ensureSlots(session.execute, queue, [slot])
    await session.commit()
    const [one, two] = await put(database, queue, [{ key, dueInMs: 3_600_000 }, { key }])
    await database.sql(
      `UPDATE sluice.slot SET held = jsonb_build_object($2::text, jsonb_build_array($3::bigint,
         (SELECT (extract(epoch FROM m.due_at) * 1000000)::bigint FROM sluice.message m WHERE m.queue = $1 AND m.id = $3::bigint)))
       WHERE queue = $1 AND slot = $4`,
      [queue, key, one, slot],
    )
    return { queue, slot, one: one!, two: two! }
  })

  prepared.for([
    ['runs it now', 'SELECT sluice.run_now($1, $2)'],
    ['reschedules it', 'SELECT sluice.reschedule($1, $2, due_at => clock_timestamp())'],
  ])('takes no later message of its key: it %s', async ([, operation], { database, begin, held }) => {
    const session = await begin()
    expect(await besideClaim(database, held, operation!, { session, claim })).not.toContain(held.two)
    await session.commit()
    const next = await begin()
    expect(idsOf(await claim(next.execute, held.queue, held.slot))).toEqual([held.one, held.two])
    await next.commit()
  })

  prepared('would take a later one if it went by the newest holds alone', async ({ database, begin, held }) => {
    const session = await begin()
    const twin = HOLDS_OF_NEWEST_ROW.filter((edit) => edit.statement === statement)
    const runNow = 'SELECT sluice.run_now($1, $2)'
    expect(await besideClaim(database, held, runNow, { session, claim, twin })).toEqual([held.two])
    await session.commit()
  })
})

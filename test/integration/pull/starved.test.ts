import { describe, expect } from 'vitest'
import { keysOf } from '../../support/rows/claim-session.ts'
import { put, test } from '../../support/sluice.ts'

/** More than a walk in a slot reads, unless it is that with which the claim begins. */
const WAITING = 1_200

/** One claim in 256 begins with the slot; that none of so many does happens once in six million tests. */
const CLAIMS = 4_000

describe('a message behind a thousand of a closed key', () => {
  for (const how of ['claim', 'pop'] as const) {
    test(`is taken while other slots have work, by ${how}`, async ({ database, sluice, queue }) => {
      const { same, other } = await keysOf(database)
      const insert = `INSERT INTO sluice.message (queue, ordering_key, payload)
                      SELECT $1, $2, '"other"' FROM generate_series(1, $3::integer)`
      await put(sluice, queue, ['first'], { orderingKey: same[0] })
      await sluice.claim(queue, { limit: 1, lease: '1h' })
      await database.sql(insert, [queue, same[0], WAITING])
      await put(sluice, queue, ['behind'], { orderingKey: same[1] })
      await database.sql(insert, [queue, other, how === 'pop' ? CLAIMS : 1])
      const pop = 'SELECT payload FROM sluice.pop($1, 1)'
      const claim = 'SELECT claim_id, payload FROM sluice.claim($1, 1)'
      const release = 'SELECT FROM sluice.claim_release($1, $2)'
      const take = async () => {
        const [taken] = await database.sql<{ payload: unknown; claim_id?: string }>(how === 'pop' ? pop : claim, [
          queue,
        ])
        if (taken?.claim_id !== undefined) await database.sql(release, [queue, taken.claim_id])
        return taken?.payload
      }
      let claims = 0
      while (claims < CLAIMS && (await take()) !== 'behind') claims += 1
      expect(claims).toBeLessThan(CLAIMS)
    })
  }
})

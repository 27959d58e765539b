import { isSluiceError } from '../../../src/errors.ts'
import { toClaimError } from '../../../src/table/pull/claim-errors.ts'
import { releaseClaim, renewClaim, settleClaimed } from '../../../src/table/pull/settle-claim.ts'
import { takeClaim } from '../../../src/table/pull/take.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { executeAlone } from './claims.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Stage } from './stage.ts'

/** A claim of two messages, and what those who end it were told. */
export interface EndWorld {
  readonly queue: string
  readonly claimId: string
  readonly ids: readonly string[]
  /** 'a settled 2', 'b CLAIM_UNKNOWN', in the order of the answers. */
  readonly told: string[]
}

export type EndStep = PlayedStep<EndWorld>

function step(name: string, work: (execute: Execute, world: EndWorld) => Promise<string>): EndStep {
  return {
    name,
    run: async (session, world) => {
      await session.begin()
      const told = await work(session.execute(), world).catch(async (error: unknown) => {
        await session.rollBack()
        const found = toClaimError(error)
        if (isSluiceError(found)) return found.code
        throw error
      })
      world.told.push(`${name}: ${told}`)
    },
  }
}

export const settle = step('settle', async (execute, { queue, claimId, ids }) => {
  const ends = await settleClaimed(execute, queue, claimId, ids, { kind: 'ack' })
  return ends.map((end) => end.refused ?? 'ack').join(' ')
})

export const renew = step('renew', async (execute, { queue, claimId }) => {
  await renewClaim(execute, queue, claimId, { leaseMs: 3_600_000, graceMs: null })
  return 'done'
})

export const release = step('release', async (execute, { queue, claimId }) =>
  String(await releaseClaim(execute, queue, claimId)),
)

/** The time of the claim passes, as its row and its messages say. */
export const expire = step('expire', async (execute, { queue, claimId }) => {
  const over = { name: 'expire', text: EXPIRE }
  await execute(over, [queue, claimId])
  return 'done'
})

/** Somebody else claims what there is. */
export const claimAgain = step('claim', async (execute, { queue }) => {
  const taken = await takeClaim(execute, queue, { limit: 2, leaseMs: 600_000, graceMs: 0, maxAttempts: 20 })
  return String(taken?.rows.length ?? 0)
})

export const commit: EndStep = {
  name: 'commits',
  run: async (session) => {
    if (session.client.getTransactionStatus() === 'T') await session.commit()
  },
}

const EXPIRE = `
WITH over AS (
  UPDATE sluice.claim c SET expires_at = clock_timestamp() WHERE c.queue = $1::text AND c.id = $2::bigint RETURNING c.expires_at
)
UPDATE sluice.message m SET due_at = over.expires_at FROM over WHERE m.queue = $1::text AND m.lease = -($2::bigint)`

/** Interleavings of those who end a claim of two messages, with or without a key. */
export function endScenario(
  { database }: Stage,
  keyed: boolean,
  sessions: Scenario<EndWorld>['sessions'],
  seen: Set<string>,
): Scenario<EndWorld> {
  return {
    sessions,
    prepare: async (queue) => {
      const rows = await database.sql<{ id: string }>(
        `SELECT sluice.enqueue($1, '1', ordering_key => CASE WHEN $2 THEN 'key ' || n END)::text AS id FROM generate_series(1, 2) n`,
        [queue, keyed],
      )
      const terms = { limit: 2, leaseMs: 600_000, graceMs: 0, maxAttempts: 20 }
      const taken = await takeClaim(executeAlone(database), queue, terms)
      return { queue, claimId: taken?.id ?? '', ids: rows.map(({ id }) => id), told: [] }
    },
    wrong: async ({ queue, claimId, told }) => {
      seen.add(told.toSorted().join(', '))
      const [end] = await database.sql<{ ours: number; left: number; claims: number; lasting: number; apart: number }>(
        ENDED,
        [queue, claimId],
      )
      const { ours = 0, left = 0, claims = 0, lasting = 0, apart = 0 } = end ?? {}
      const settled = told.includes('settle: ack ack')
      const released = told.includes('release: 2')
      return [
        ...(settled && released ? ['settled and released'] : []),
        ...(settled !== (left === 0) ? [`told ${told}, and ${left} messages are left`] : []),
        ...((ours > 0 ? claims === 0 : lasting > 0) ? [`${ours} messages of the claim, and ${claims} rows of it`] : []),
        ...(apart > 0 ? ['the claim and its messages end at different times'] : []),
      ]
    },
  }
}

const ENDED = `
SELECT count(*) FILTER (WHERE m.lease = -($2::bigint))::integer AS ours, count(*)::integer AS left,
       count(*) FILTER (WHERE m.lease = -($2::bigint) AND m.due_at <> c.expires_at)::integer AS apart,
       (SELECT count(*) FROM sluice.claim c WHERE c.queue = $1 AND c.id = $2::bigint)::integer AS claims,
       (SELECT count(*) FROM sluice.claim c
        WHERE c.queue = $1 AND c.id = $2::bigint AND c.expires_at > clock_timestamp())::integer AS lasting
FROM sluice.message m LEFT JOIN sluice.claim c ON c.queue = m.queue AND c.id = $2::bigint
WHERE m.queue = $1`

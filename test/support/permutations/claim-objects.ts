import { settleClaimed } from '../../../src/table/pull/settle-claim.ts'
import { takeClaim } from '../../../src/table/pull/take.ts'
import { type Edit, edited } from '../rows/edited-functions.ts'
import type { TestDatabase } from '../servers/database.ts'
import { PAUSED_SQL_CLAIM } from '../twins/functions.ts'
import type { ClaimStep } from './claims.ts'

export type Pause = keyof typeof PAUSED_SQL_CLAIM

/** Changes functions in a database until it is told to put them back. */
export function pausing(database: TestDatabase, pause: Pause, ...twin: readonly Edit[]): Promise<AsyncDisposable> {
  return edited(database, [...PAUSED_SQL_CLAIM[pause], ...twin])
}

const TERMS = { limit: 1, leaseMs: 600_000, graceMs: 0, maxAttempts: 20 }

/** The numbers of the claims of each session in each play. */
const claimIds = new Map<string, string>()

const look: ClaimStep = {
  name: 'looks',
  run: async (session, { queue, ledger, looks }) => {
    await session.begin()
    const seen = ledger.sees()
    const claiming = takeClaim(session.execute(), queue, TERMS).then((taken) => {
      if (taken !== undefined) claimIds.set(`${queue} ${session.name}`, taken.id)
      return { rows: taken?.rows ?? [], nowUs: 0, transaction: { pid: 0, startedUs: 0 }, memory: '', evidence: false }
    })
    claiming.catch(() => undefined)
    looks.set(session.name, { seen, claiming })
    // Beside a slot that somebody has locked it comes to no pause behind the lock.
    await session.untilAtGateOrDone(claiming)
  },
}

const claim: ClaimStep = {
  name: 'claims',
  run: async (session, { queue, ledger, looks, hands }) => {
    await session.openGate(queue)
    const { seen, claiming } = looks.get(session.name)!
    const { rows } = await claiming
    ledger.claims(
      session.name,
      rows.map(({ id }) => id),
      seen,
    )
    hands.set(session.name, rows)
    await session.commit()
  },
}

const settle: ClaimStep = {
  name: 'settles its claim',
  run: async (session, { queue, ledger, hands }) => {
    const ids = (hands.get(session.name) ?? []).map(({ id }) => id)
    if (ids.length === 0) return
    await session.begin()
    const claimId = claimIds.get(`${queue} ${session.name}`)!
    const ends = await settleClaimed(session.execute(), queue, claimId, ids, { kind: 'ack' })
    const settled = ends.filter((end) => end.refused === undefined).map(({ id }) => id)
    const had = ledger.heldBy(session.name)
    if (settled.join() !== had.join()) throw new Error(`expected to settle ${had}, received ${JSON.stringify(ends)}`)
    ledger.moves(session.name, settled, 'handled')
    ledger.commits(session.name)
    await session.commit()
  },
}

/** A claim by the SQL function, which commits at once, and its settlement. */
export const claimed: readonly ClaimStep[] = [look, claim, settle]

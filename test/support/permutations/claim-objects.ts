import { settleClaimed } from '../../../src/table/pull/settle-claim.ts'
import { takeClaim } from '../../../src/table/pull/take.ts'
import { type Edit, edited } from '../rows/edited-functions.ts'
import type { TestDatabase } from '../servers/database.ts'
import type { ClaimStep } from './claims.ts'

/** Where a claim by the SQL function stops: with a snapshot and nothing locked, or with a slot locked and its keys read. */
export type Pause = 'before the lock' | 'behind the lock'

const GATE = 'pg_advisory_xact_lock_shared(pg_backend_pid(), hashtext(queue))'

const PAUSES: Readonly<Record<Pause, readonly Edit[]>> = {
  'before the lock': [
    {
      name: 'lock_unkeyed',
      from: 'FROM generate_series(0, 9) AS p (priority)',
      to: `FROM (SELECT g, ${GATE} FROM generate_series(0, 9) AS g OFFSET 0) AS p (priority, gate)`,
    },
    { name: 'lock_in_slot', from: 'SELECT s.held INTO held', to: `PERFORM ${GATE}; SELECT s.held INTO held` },
  ],
  'behind the lock': [{ name: 'lock_in_slot', from: 'now_at :=', to: `PERFORM ${GATE}; now_at :=` }],
}

/** A twin that does not ask which keys are closed. */
export const CARELESS: Edit = {
  name: 'lock_in_slot',
  from: 'sluice.leased_keys(queue, slot, lowest)',
  to: `'{}'::jsonb`,
}

/** Changes functions in a database until it is told to put them back. */
export function pausing(database: TestDatabase, pause: Pause, ...twin: readonly Edit[]): Promise<AsyncDisposable> {
  return edited(database, [...PAUSES[pause], ...twin])
}

const TERMS = { limit: 1, ttlMs: 600_000, graceMs: 0, maxAttempts: 20 }

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

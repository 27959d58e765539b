import { inject } from 'vitest'
import { type Lease, leaseOf as leaseNumber } from '../../../src/table/claim/lease.ts'
import { ackLeased } from '../../../src/table/settle/settle-leased.ts'
import { idsOf } from '../rows/claim-session.ts'
import { type ClaimStep, type Claims, inHand } from './claims.ts'
import { PAUSED_CLAIM } from './rewrite.ts'

const serverVersion = inject('serverVersion')

/** Of each session in each play. */
const leases = new Map<string, Lease>()

function leaseOf(queue: string, session: string): Lease {
  const play = `${queue} ${session}`
  const known = leases.get(play) ?? { lease: leaseNumber(1, leases.size + 1), ms: 600_000, serverVersion }
  leases.set(play, known)
  return known
}

/** A leased claim up to its snapshot. The session's gate must be closed. */
function leaseLook({ limit = 2, twin = [], by }: Claims = {}): ClaimStep {
  return {
    name: 'looks',
    run: async (session, { queue, target, ledger, looks }) => {
      await session.begin()
      const seen = ledger.sees()
      const execute = session.execute(...PAUSED_CLAIM, ...twin)
      const claiming = (by ?? target).claim(execute, queue, limit, leaseOf(queue, session.name))
      claiming.catch(() => undefined)
      looks.set(session.name, { seen, claiming })
      await session.untilAtGate(claiming)
    },
  }
}

/** The rest of it, and its COMMIT: from here on no transaction keeps the messages, and they are in hand all the same. */
const lease: ClaimStep = {
  name: 'leases',
  run: async (session, { queue, ledger, looks, hands }) => {
    await session.openGate(queue)
    const { seen, claiming } = looks.get(session.name)!
    const taken = await claiming
    ledger.claims(session.name, idsOf(taken), seen)
    hands.set(session.name, taken.rows)
    await session.commit()
  },
}

/** Settles them in a transaction of its own. */
const leaseAck: ClaimStep = {
  name: 'acks its leases',
  run: async (session, { queue, ledger, hands }) => {
    const ids = inHand(hands, session)
    await session.begin()
    const { lease: of } = leaseOf(queue, session.name)
    const messages = ids.map((id) => ({ id, lease: of }))
    const settled = ids.length > 0 ? await ackLeased(session.execute(), queue, messages, serverVersion) : []
    if (settled.length !== ids.length) throw new Error(`expected to settle ${ids}, settled ${settled}`)
    ledger.moves(session.name, ids, 'handled')
    ledger.commits(session.name)
    await session.commit()
  },
}

export const leased = (claims?: Claims): readonly ClaimStep[] => [leaseLook(claims), lease, leaseAck]

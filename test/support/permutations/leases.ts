import { inject } from 'vitest'
import { type Lease, leaseOf as leaseNumber } from '../../../src/table/claim/lease.ts'
import { ackLeased } from '../../../src/table/settle/settle-leased.ts'
import { type ClaimStep, type Claims, inHand, lock, look } from './claims.ts'

const serverVersion = inject('serverVersion')

/** Of each session in each play. */
const leases = new Map<string, Lease>()

function leaseOf(queue: string, session: string): Lease {
  const play = `${queue} ${session}`
  const known = leases.get(play) ?? { lease: leaseNumber(1, leases.size + 1), ms: 600_000, serverVersion }
  leases.set(play, known)
  return known
}

/** The rest of a leased claim, and its COMMIT: from here on no transaction keeps the messages, and they are in hand. */
const lease: ClaimStep = {
  name: 'leases',
  run: async (session, world) => {
    await lock.run(session, world)
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

export const leased = (claims?: Claims): readonly ClaimStep[] => [look({ ...claims, lease: leaseOf }), lease, leaseAck]

import type { LeasedId } from '../../../src/table/settle/fence.ts'
import { lockLeased, renewLeases } from '../../../src/table/settle/leases.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { ackLeased, deadLetterLeased, postponeLeased } from '../rows/write-settled.ts'
import type { ClaimStep, ClaimWorld } from './claims.ts'
import { LEASE_MS, leasedIds, SERVER_VERSION } from './lease-of.ts'
import type { Ledger } from './ledger.ts'
import type { Rewrite } from './rewrite.ts'

/** How a step settles or renews leases. */
export interface Touch {
  /** Whose leases. @default those of the session that plays the step */
  readonly of?: string
  readonly twin?: readonly Rewrite[]
  /** The server version whose statement is sent. */
  readonly version?: number
}

export function leaseAck(touch: Touch = {}): ClaimStep {
  return touching('acks its leases', touch, async (execute, { queue }, messages, version) => ({
    found: await ackLeased(execute, queue, messages, version),
    place: 'handled',
  }))
}

/** To be tried again later, or given back as it was. */
export function leaseRetry(afterUs: number, touch: Touch = {}): ClaimStep {
  const name = afterUs > 0 ? 'retries its leases later' : 'gives its leases back'
  return touching(name, touch, async (execute, { queue }, messages, version) => {
    const nowUs = Date.now() * 1_000
    const postponed = messages.map((message) => ({ ...message, dueUs: nowUs + afterUs, attempt: 1, error: 'broken' }))
    const found = await postponeLeased(execute, queue, postponed, nowUs, version)
    return { found, place: afterUs > 0 ? 'later' : 'waiting' }
  })
}

export function leaseBury(touch: Touch = {}): ClaimStep {
  return touching('buries its leases', touch, async (execute, { queue }, messages, version) => {
    const dead = messages.map((message) => ({ ...message, attempt: 1, reason: 'too many', error: 'broken' }))
    return { found: await deadLetterLeased(execute, queue, dead, version), place: 'dead' }
  })
}

/** What the transaction of a handler begins with. */
export function leaseLock(touch: Touch = {}): ClaimStep {
  return touching('locks its leases', touch, async (execute, { queue }, messages, version) => ({
    found: await lockLeased(execute, queue, messages, version),
  }))
}

export function renew(touch: Touch = {}): ClaimStep {
  return touching('renews its leases', touch, async (execute, { queue, ledger }, messages, version) => {
    const found = await renewLeases(execute, queue, messages, LEASE_MS, version)
    ledger.expires(found, false)
    return { found }
  })
}

interface Touched {
  readonly found: readonly string[]
  /** What becomes of them when the transaction commits. */
  readonly place?: 'handled' | 'later' | 'waiting' | 'dead'
}

/** A statement on leases in the transaction of whoever plays it. It must find what their session still has, and no more. */
function touching(
  name: string,
  { of, twin = [], version = SERVER_VERSION }: Touch,
  touch: (execute: Execute, world: ClaimWorld, messages: readonly LeasedId[], version: number) => Promise<Touched>,
): ClaimStep {
  return {
    name,
    run: async (session, world) => {
      const { ledger } = world
      const holder = of ?? session.name
      const messages = leasedIds(world, holder)
      if (session.client.getTransactionStatus() === 'I') await session.begin()
      if (messages.length === 0) return
      const { found, place } = await touch(session.execute(...twin), world, messages, version)
      ledger.wrong.push(...falselyFound(ledger, holder, found))
      if (place === undefined) return
      ledger.moves(session.name, found, place)
      ledger.frees(session.name, found)
    },
  }
}

function falselyFound(ledger: Ledger, holder: string, found: readonly string[]): readonly string[] {
  const had = ledger.heldBy(holder)
  const extra = found.filter((id) => !had.includes(id)).map((id) => `${holder} still finds ${ledger.numberOf(id)}`)
  const missing = had.filter((id) => !found.includes(id)).map((id) => `${holder} does not find ${ledger.numberOf(id)}`)
  return [...extra, ...missing]
}

import { inject } from 'vitest'
import type { ClaimedRow } from '../../../src/table/claim/claim.ts'
import { type HeldKey, holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import {
  ackLeased,
  ackMessages,
  deadLetterLeased,
  deadLetterMessages,
  dropLeased,
  dropMessages,
  keepKeysLeased,
  keepKeysLocked,
  postponeLeased,
  postponeMessages,
} from '../rows/write-settled.ts'
import type { End } from './life-model.ts'

const serverVersion = inject('serverVersion')
export const HOUR_US = 3_600_000_000

interface Times {
  readonly nowUs: number
  readonly afterUs: number
}

/** What a batch's settlement writes in its transaction. */
export async function writeSettlement(
  execute: Execute,
  queue: string,
  rows: readonly ClaimedRow[],
  ends: ReadonlyMap<string, End | 'expired'>,
  times: Times,
): Promise<void> {
  const of = (...kinds: readonly (End | 'expired')[]) =>
    rows.filter(({ id }) => kinds.includes(ends.get(id) ?? 'leave'))
  const acked = of('ack')
  const keeping = acked.filter(({ options }) => options?.dedupeMs != null).map(({ id }) => ({ id, forMs: null }))
  if (keeping.length > 0) await keepKeysLocked(execute, queue, keeping, serverVersion)
  if (acked.length > 0) await ackMessages(execute, queue, idsOf(acked), serverVersion)
  const postponed = of('retry', 'snooze').map((row) => postpone(row, ends.get(row.id) === 'retry', times))
  if (postponed.length > 0) await postponeMessages(execute, queue, postponed, times.nowUs)
  const held = holdsOf(of('retry', 'snooze'), times)
  if (held.length > 0) await holdKeys(execute, queue, held, times.nowUs)
  const dead = of('bury').map(({ id }) => ({ id, attempt: 1, reason: 'broken', error: null }))
  if (dead.length > 0) await deadLetterMessages(execute, queue, dead)
  const expired = of('expired')
  if (expired.length > 0) await dropMessages(execute, queue, idsOf(expired), 'expired')
}

/** What is written for messages of a lease, in a transaction of its own. Resolves with those that still had it. */
export async function writeUnderLease(
  execute: Execute,
  queue: string,
  { rows, lease = '' }: { readonly rows: readonly ClaimedRow[]; readonly lease?: string },
  ids: readonly string[],
  end: End | 'expired',
  hours: number,
  nowUs: number,
): Promise<readonly string[]> {
  if (ids.length === 0) return []
  const leased = rows.filter(({ id }) => ids.includes(id)).map((row) => ({ ...row, lease }))
  const times = { nowUs, afterUs: hours * HOUR_US }
  switch (end) {
    case 'ack':
      await keepKeysLeased(
        execute,
        queue,
        leased.map((row) => ({ ...row, forMs: null })),
        serverVersion,
      )
      return ackLeased(execute, queue, leased, serverVersion)
    case 'bury': {
      const dead = leased.map(({ id }) => ({ id, lease, attempt: 1, reason: 'broken', error: null }))
      return deadLetterLeased(execute, queue, dead, serverVersion)
    }
    case 'expired':
      return dropLeased(execute, queue, leased, 'expired')
    default: {
      const postponed = leased.map((row) => ({ ...postpone(row, end === 'retry', times), lease }))
      return postponeLeased(execute, queue, postponed, nowUs, serverVersion)
    }
  }
}

/** As a settlement reckons: an expired message that waited would keep its key from the later ones. */
function postpone({ id, attempt, options }: ClaimedRow, failed: boolean, { nowUs, afterUs }: Times) {
  const dueUs = Math.min(nowUs + afterUs, options?.expiresUs ?? Number.MAX_SAFE_INTEGER)
  return { id, dueUs, attempt: failed ? attempt + 1 : attempt, error: failed ? 'broken' : null }
}

function holdsOf(rows: readonly ClaimedRow[], times: Times): readonly HeldKey[] {
  const byKey = Map.groupBy(
    rows.filter(({ slot }) => slot !== null),
    ({ orderingKey }) => orderingKey,
  )
  return [...byKey.values()].flatMap(([first, ...others]) => {
    if (first?.slot == null || first.orderingKey === null) return []
    const untilUs = Math.max(...[first, ...others].map((row) => postpone(row, false, times).dueUs))
    return [{ slot: first.slot, orderingKey: first.orderingKey, messageId: first.id, others: idsOf(others), untilUs }]
  })
}

function idsOf(rows: readonly ClaimedRow[]): readonly string[] {
  return rows.map(({ id }) => id)
}

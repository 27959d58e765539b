import { toError } from '../errors.ts'
import type { Outcome } from '../message.ts'
import type { RetryPolicies } from '../retry-policy.ts'
import { retryInMs } from '../settings/retry-in-ms.ts'
import { type ClaimedEnd, settleClaimed } from '../table/pull/settle-claim.ts'
import { readTries } from '../table/pull/take.ts'
import type { Execute } from '../table/statement.ts'
import type { Report } from '../telemetry/events.ts'

/** The retry policies that a settlement goes by. */
export interface SettlementPolicies {
  /** By their names, as JSON: those that are not functions, which the server knows to follow. */
  readonly policies: string | null
  /** All, if one of them is a function. */
  readonly calledPolicies: RetryPolicies | undefined
  readonly report: Report
}

/**
 * Settles messages of a claim. A retry without a time goes by the policy of its message or queue, also if that is a function, and
 * not below `atLeastMs`.
 */
export async function settleWithPolicies(
  execute: Execute,
  queue: string,
  claimId: string,
  ids: readonly string[],
  outcome: Outcome,
  given: SettlementPolicies,
): Promise<readonly ClaimedEnd[]> {
  const { policies, calledPolicies } = given
  if (calledPolicies === undefined || outcome.kind !== 'retryLater' || outcome.afterMs !== undefined)
    return settleClaimed(execute, queue, claimId, ids, outcome, policies)
  const waits = new Map<string, number>()
  for (const message of await readTries(execute, queue, claimId)) {
    const policy = message.policies.map((name) => calledPolicies.get(name)).find((one) => one !== undefined)
    const failed = (thrown: unknown) =>
      given.report({ kind: 'retryPolicy.failed', queue, id: message.id, error: toError(thrown) })
    if (policy !== undefined && ids.includes(message.id))
      waits.set(message.id, Math.max(outcome.atLeastMs ?? 0, retryInMs(policy, message.attempt, outcome.error, failed)))
  }
  const ends = new Map<string, ClaimedEnd>()
  for (const [afterMs, some] of Map.groupBy(ids, (id) => waits.get(id))) {
    const settled = await settleClaimed(execute, queue, claimId, some, { ...outcome, afterMs }, policies)
    for (const end of settled) ends.set(end.id, end)
  }
  return ids.flatMap((id) => ends.get(id) ?? [])
}

import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { expected } from '../errors.ts'
import type { Outcome } from '../message.ts'
import type { Attempt } from './attempt.ts'
import { BlockedKeys, type KeyOf } from './blocked-keys.ts'
import type { AnyHandler } from './consumption.ts'
import type { Release } from './release.ts'
import { toOutcome, toOutcomes } from './to-outcome.ts'

/**
 * What one call of a handler has returned, as an outcome for each of its messages.
 *
 * @throws SluiceError OPTION_INVALID; TypeError if it cannot be kept for all of them, and each is to be handled alone
 */
export function outcomesOf(
  kind: AnyHandler['kind'],
  partitionOf: KeyOf | undefined,
  messages: readonly DeliveredMessage[],
  { committed }: Pick<Attempt, 'committed'>,
  returned: unknown,
): readonly (Outcome | Release)[] {
  const outcomes = kind === 'each' ? [toOutcome(returned)] : toOutcomes(returned, messages.length)
  if (committed) checkAcked(outcomes)
  if (partitionOf !== undefined && messages.length > 1) checkPartitions(partitionOf, messages, outcomes)
  return outcomes
}

/** @throws SluiceError OPTION_INVALID: its own transaction has settled the messages already */
function checkAcked(outcomes: readonly (Outcome | Release)[]): void {
  const other = outcomes.find(({ kind }) => kind !== 'ack')
  if (other === undefined) return
  throw expected('OPTION_INVALID', "The handler's result", 'nothing or ack() after transaction()', other)
}

/** What a batch handler does with later events of a partition must not be kept if an earlier one stays. */
function checkPartitions(
  partitionOf: KeyOf,
  messages: readonly DeliveredMessage[],
  outcomes: readonly (Outcome | Release)[],
): void {
  const staying = new BlockedKeys(partitionOf)
  for (const [at, message] of messages.entries()) {
    if (staying.has(message))
      throw new TypeError('an event is to be tried again, and later ones of its partition are not')
    if (outcomes[at]?.kind !== 'ack') staying.add(message)
  }
}

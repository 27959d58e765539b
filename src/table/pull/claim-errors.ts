import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { SluiceError } from '../../errors.ts'
import { isOfGroup, ofGroup } from '../stream/group-queue.ts'

/** An error of the functions for claims, with its code; any other as it is. */
export function toClaimError(error: unknown): unknown {
  if (isOfGroup(error)) return ofGroup(error)
  const code = CODES.find(([state]) => hasSqlState(error, state))?.[1]
  if (code === undefined) return error
  return new SluiceError(code, `${wordsOf(error)}. ${REMEDIES[code]}`, { cause: error })
}

/** The error for a claim whose messages are all gone. */
export function claimUnknown(queue: string, id: string): SluiceError {
  const what = `Claim ${id} of queue "${queue}": expected one that has messages, received one whose messages are gone`
  return new SluiceError('CLAIM_UNKNOWN', `${what}. ${REMEDIES.CLAIM_UNKNOWN}`)
}

const CODES = [
  ['SL010', 'CLAIM_UNKNOWN'],
  ['SL011', 'CLAIM_OVER'],
] as const

const REMEDIES = {
  CLAIM_UNKNOWN: 'Claim again',
  CLAIM_OVER: 'Its messages are free for others. Claim with a longer lease, or renew in time',
} as const

import { checkId } from '../../basics/checks/check-id.ts'
import { expected, isSluiceError } from '../../errors.ts'
import type { Outcome } from '../../message.ts'
import { ID, messagesBody } from '../forms.ts'
import { arrayOf, objectOf, type ValueOf } from '../json-schema.ts'
import { type Call, routeWithBody } from '../route.ts'
import { claimIdOf, ONE_CLAIM } from './one-claim.ts'
import { END, outcomeOf } from './outcome-form.ts'

const REFUSED = objectOf('a message that was not settled', {
  id: ID,
  reason: {
    description: 'why it was not settled; unknown: it may be settled or not, so send it again',
    type: 'string',
    enum: ['gone', 'not_claimed', 'claimed_by_other', 'claim_over', 'unknown'],
  },
})

const SETTLEMENT = objectOf('what became of the messages', {
  settled: arrayOf('the ids of those that were settled', ID),
  refused: arrayOf('the others', REFUSED),
})

type SettlementAnswer = ValueOf<typeof SETTLEMENT>

export const SETTLE_CLAIM = routeWithBody({
  ...ONE_CLAIM,
  name: 'settleClaim',
  method: 'POST',
  path: `${ONE_CLAIM.path}/settle`,
  summary: 'Settle messages of a claim, each with its outcome',
  body: messagesBody('an array of 1 to 1,000 messages with their outcomes', END),
  answers: [{ status: 200, description: 'Each message is settled or refused', schema: SETTLEMENT }],
  run: async (call, { messages }) => {
    const id = claimIdOf(call)
    return { status: 200, body: JSON.stringify(await settleAll(call, id, byOutcome(messages))) }
  },
})

interface Group {
  readonly outcome: Outcome
  readonly ids: string[]
}

/**
 * Messages with the same outcome are settled by one statement. Most requests have one outcome.
 *
 * @throws SluiceError OPTION_INVALID
 */
function byOutcome(ends: readonly ValueOf<typeof END>[]): readonly Group[] {
  const groups = new Map<string, Group>()
  const known = new Set<string>()
  for (const [at, end] of ends.entries()) {
    const what = `messages[${at}]`
    const id = checkId(end.id, `${what}.id`)
    if (known.has(id)) throw expected('OPTION_INVALID', `${what}.id`, 'each id once', id)
    known.add(id)
    const outcome = outcomeOf(end, what)
    const key = JSON.stringify(outcome)
    const group = groups.get(key) ?? { outcome, ids: [] }
    group.ids.push(id)
    groups.set(key, group)
  }
  return [...groups.values()]
}

/** Each group is a transaction of its own. If one fails, the client must learn what those before it have settled. */
async function settleAll(
  { sluice, queue, failedInPart }: Call,
  id: string,
  groups: readonly Group[],
): Promise<SettlementAnswer> {
  const settled: string[] = []
  const refused: SettlementAnswer['refused'][number][] = []
  for (const [at, { ids, outcome }] of groups.entries()) {
    try {
      const settlement = await sluice.operate.claims.settle(queue, id, ids, outcome)
      settled.push(...settlement.settled)
      refused.push(...settlement.refused)
    } catch (error) {
      if (at === 0) throw error
      const over = isSluiceError(error, 'CLAIM_OVER') || isSluiceError(error, 'CLAIM_UNKNOWN')
      if (!over) failedInPart(error)
      const rest = groups.slice(at).flatMap((group) => group.ids)
      refused.push(...rest.map((one) => ({ id: one, reason: over ? 'claim_over' : 'unknown' }) as const))
      break
    }
  }
  return { settled, refused }
}

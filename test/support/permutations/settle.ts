import { WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { deadLetterMessages, postponeMessages } from '../rows/write-settled.ts'
import { ack, type ClaimStep, inHand, rollBack } from './claims.ts'

const HOUR_US = 3_600_000_000

/** The messages in hand are to be tried again, their key held until then, as a settlement writes it. */
export function retry(afterUs: number): ClaimStep {
  return {
    name: 'retries',
    run: async (session, { queue, target, ledger, hands }) => {
      const ids = inHand(hands, session)
      const nowUs = Date.now() * 1_000
      const dueUs = nowUs + afterUs
      ledger.moves(session.name, ids, afterUs > 0 ? 'later' : 'waiting')
      if (ids.length === 0) return
      const execute = session.execute()
      const messages = ids.map((id) => ({ id, dueUs, attempt: 1, error: 'broken' }))
      await postponeMessages(execute, queue, messages, nowUs)
      const { slot, key } = target
      if (key === null && slot !== WHOLE_QUEUE_SLOT) return
      await holdKeys(execute, queue, [{ slot, orderingKey: key ?? '', messageId: ids[0]!, untilUs: dueUs }], 0)
    },
  }
}

export const bury: ClaimStep = {
  name: 'buries',
  run: async (session, { queue, ledger, hands }) => {
    const ids = inHand(hands, session)
    ledger.moves(session.name, ids, 'dead')
    const messages = ids.map((id) => ({ id, attempt: 1, reason: 'too many', error: 'broken' }))
    if (ids.length > 0) await deadLetterMessages(session.execute(), queue, messages)
  },
}

/** What may become of a batch. */
export const SETTLEMENTS: readonly ClaimStep[] = [
  ack,
  { ...retry(HOUR_US), name: 'retries later' },
  retry(0),
  bury,
  rollBack,
]

import type { DeadLetterChoice, DeadLetterFilter } from 'sluice'
import { Refusal } from '../access/refusal.ts'
import { withoutPasswords } from '../view/errors.ts'

/** Which dead letters, as an address or a form says it. */
export type DeadFields = Readonly<Partial<Record<(typeof NAMES)[number], string>>>

const NAMES = ['queue', 'type', 'tenant', 'reason', 'error'] as const
const MOST_CHARACTERS = 1_000

/**
 * A filter with a password in it would be shown, and kept in the address, in logs and in the audit.
 *
 * @throws Refusal 400
 */
export function readDeadFields(from: URLSearchParams): DeadFields {
  const given = NAMES.flatMap((name) => {
    const value = from.get(name)?.slice(0, MOST_CHARACTERS)
    return value ? [[name, value] as const] : []
  })
  const secret = given.find(([, value]) => withoutPasswords(value) !== value)
  if (secret !== undefined) throw new Refusal(400, 'A filter has a password in it', `${secret[0]}: ${WITHOUT}`)
  return Object.fromEntries(given)
}

const WITHOUT = 'expected no URL with a password. Filter by another part of the text, such as the name of the host.'

/** The dead letters that a form is about: those that are ticked, or all that match. */
export interface DeadChoice {
  readonly fields: DeadFields
  /** Undefined: all that match. */
  readonly ids: readonly string[] | undefined
}

/** @returns undefined if nothing is chosen */
export function readDeadChoice(form: URLSearchParams): DeadChoice | undefined {
  const fields = readDeadFields(form)
  if (form.get('all') === 'yes') return { fields, ids: undefined }
  const ids = form.getAll('ids')
  return ids.length === 0 ? undefined : { fields, ids }
}

/** As `operate` takes it, with an instant: what dies after it is left alone. Ids are unique among all queues. */
export function choiceOf({ fields, ids }: DeadChoice, diedBefore: Date): DeadLetterChoice {
  const { queue, ...others } = fields
  const match = { ...others, ...(ids !== undefined && { ids }), diedBefore }
  return queue === undefined ? { ...match, allQueues: true } : { ...match, queue }
}

/** The same for a count. */
export function filterOf({ fields, ids }: DeadChoice, diedBefore: Date): DeadLetterFilter {
  return { ...fields, ids, diedBefore }
}

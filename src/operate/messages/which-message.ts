import { checkId } from '../../basics/checks/check-id.ts'
import { checkKeys } from '../../basics/checks/check-keys.ts'
import { keyOf } from '../../enqueue/dedupe.ts'
import { SluiceError } from '../../errors.ts'
import type { MessageAddress } from '../../table/operate/messages/change-message.ts'

/** Which message of a queue: by its id, alone or as `{ id }`, or by its dedupe key. */
export type WhichMessage = string | { readonly id: string } | { readonly dedupeKey: string }

/** @throws SluiceError OPTION_INVALID */
export function readWhich(what: string, which: WhichMessage): MessageAddress {
  if (typeof which !== 'object' || which === null) return { id: checkId(which, `${what}.id`), dedupeKey: null }
  checkKeys(what, which, ['id', 'dedupeKey'], `As in ${what}('emails', { id })`)
  const { id, dedupeKey }: { readonly id?: unknown; readonly dedupeKey?: unknown } = which
  if ((id === undefined) === (dedupeKey === undefined)) {
    const received = id === undefined ? 'neither' : 'both'
    throw new SluiceError('OPTION_INVALID', `${what}: expected an id or a dedupeKey, received ${received}`)
  }
  return {
    id: id === undefined ? null : checkId(id, `${what}.id`),
    dedupeKey: dedupeKey === undefined ? null : keyOf(dedupeKey, `${what}.dedupeKey`),
  }
}

import { checkKeys } from '../basics/checks/check-keys.ts'
import { storable } from '../basics/checks/options.ts'
import { toMsWithin } from '../basics/time/duration.ts'
import { expected, SluiceError } from '../errors.ts'
import { type Dedupe, ON_DUPLICATE, type OnDuplicate } from '../message-options.ts'
import type { RowDedupe } from '../table/enqueue/insert-row.ts'

const NAMES = ['key', 'for', 'onDuplicate'] as const satisfies readonly (keyof Dedupe)[]

const REMEDY = "As in dedupe: { key: 'invoice 17', for: '10m' }"

/** What the message has beside its key. */
interface Beside {
  /** A delay or a due time. */
  readonly time: boolean
  readonly tenant: boolean
}

/** @throws SluiceError OPTION_INVALID */
export function readDedupe(dedupe: unknown, what: string, beside: Beside): RowDedupe | null {
  if (dedupe === undefined) return null
  checkKeys(what, dedupe, NAMES, REMEDY)
  const given: { readonly [Name in keyof Dedupe]?: unknown } = dedupe
  const onDuplicate = policyOf(given.onDuplicate, `${what}.onDuplicate`)
  const forMs = given.for === undefined ? null : toMsWithin(`${what}.for`, given.for, '1ms')
  if (onDuplicate === 'throttle' && forMs === null)
    throw new SluiceError('OPTION_INVALID', `${what}.for: throttle needs it. As in for: '10m'`)
  if (onDuplicate === 'debounce' && !beside.time) {
    const sentence = `${what}: debounce also needs a delay or dueAt`
    throw new SluiceError('OPTION_INVALID', `${sentence}. As in delay: '5s'`)
  }
  if (beside.tenant && (onDuplicate === 'requeue' || onDuplicate === 'debounce')) {
    const sentence = `${what}: ${onDuplicate} excludes a tenant`
    throw new SluiceError(
      'OPTION_INVALID',
      `${sentence}. Such a message gets an ordering key, which has no tenant beside it`,
    )
  }
  return { key: keyOf(given.key, `${what}.key`), forMs, onDuplicate }
}

/** @throws SluiceError OPTION_INVALID */
export function keyOf(value: unknown, what: string): string {
  const wanted = '1 to 255 bytes of text'
  if (typeof value !== 'string') {
    throw expected('OPTION_INVALID', what, wanted, value, 'Turn a number into a string with String(…)')
  }
  const bytes = Buffer.byteLength(value)
  if (bytes >= 1 && bytes <= 255) return storable(what, value)
  throw expected('OPTION_INVALID', what, wanted, value)
}

function policyOf(value: unknown, what: string): OnDuplicate {
  if (value === undefined) return 'reject'
  const known = ON_DUPLICATE.find((policy) => policy === value)
  if (known !== undefined) return known
  throw expected('OPTION_INVALID', what, `one of ${ON_DUPLICATE.join(', ')}`, value)
}

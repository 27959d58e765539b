import { SluiceError } from '../errors.ts'

/** What the user has to end in time. */
export type LateSubject = 'handler' | 'delivery'

/**
 * The time of a handler, or of a delivery, is up.
 *
 * @param inStatement a statement of its transaction was on the server: the time may not be the handler's own
 * @param readOwnEnd it has read when its own pipeline ends, and perhaps awaits that
 */
export function handlerTimeout(
  subject: LateSubject,
  timeoutMs: number,
  inStatement: boolean,
  readOwnEnd: boolean,
): SluiceError {
  const { wanted, received, remedy, raise } = TEXTS[subject]
  const what = `The ${subject}: expected to ${wanted} within ${timeoutMs} ms, received no ${received}`
  return new SluiceError(
    'HANDLER_TIMEOUT',
    inStatement
      ? `${what} while a statement on its tx was running. ${LOCKED} If it was slow, ${raise}`
      : `${what}. ${readOwnEnd ? OWN_END : ''}${remedy}`,
  )
}

const LOCKED =
  'It may have waited for a lock: pg_blocking_pids() tells whose, see docs/reference/errors.md#handler_timeout.'

const OWN_END =
  'It has read `ended` of its own pipeline, which resolves only after this handler: do not await it here. '

const TEXTS = {
  handler: {
    wanted: 'end',
    received: 'end',
    remedy: "Raise the pipeline's timeout, or pass the signal on",
    raise: "raise the pipeline's timeout",
  },
  delivery: {
    wanted: 'be settled',
    received: 'settlement',
    remedy: 'Settle it: delivery.ack(). Or raise the timeout of deliveries()',
    raise: 'raise the timeout of deliveries()',
  },
} as const

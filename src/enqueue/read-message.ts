import { expected } from '../errors.ts'
import type { QueueDefinitions } from '../queues.ts'
import type { RetryPolicies } from '../retry-policy.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { readOptions } from './options.ts'
import type { Entry } from './read-list.ts'
import { checkSize, type MessageNames, readPayload } from './read-payload.ts'

export interface MessageRules {
  readonly definitions: QueueDefinitions | undefined
  /** The largest payload, and the largest headers, in bytes of JSON. */
  readonly payloadLimitBytes: number
  /** The policies that a message can name; undefined: any, because the workers may be other programs. */
  readonly retryPolicies?: RetryPolicies | undefined
}

/**
 * Turns one message into a row to insert, or refuses it. Returns a promise only if the queue has a schema: awaiting one
 * for each of a thousand messages takes as long as encoding them.
 *
 * @throws SluiceError OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
 */
export function readMessage(
  rules: MessageRules,
  queue: string,
  message: Entry,
  names: MessageNames,
): InsertRow | Promise<InsertRow> {
  const columns = readOptions(message.options, names.options)
  if (columns.retryPolicy !== null)
    checkPolicy(columns.retryPolicy, `${names.options}.retryPolicy`, rules.retryPolicies)
  checkSize(columns.headers, `${names.options}.headers`, rules.payloadLimitBytes)
  const target = {
    name: `queue ${queue}`,
    definition: rules.definitions?.[queue],
    payloadLimitBytes: rules.payloadLimitBytes,
  }
  const payload = readPayload(target, message.payload, names.payload)
  return typeof payload === 'string' ? { ...columns, payload } : payload.then((text) => ({ ...columns, payload: text }))
}

function checkPolicy(name: string, what: string, known: RetryPolicies | undefined): void {
  if (known === undefined || known.has(name)) return
  const wanted = `a name in retryPolicies (${[...known.keys()].join(', ')})`
  throw expected('OPTION_INVALID', what, wanted, name, 'Add it to createSluice({ retryPolicies })')
}

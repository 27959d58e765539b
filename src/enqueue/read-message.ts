import { describe, SluiceError } from '../errors.ts'
import { type QueueDefinition, type QueueDefinitions, validatePayload } from '../queues.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import { encodeJson } from './json.ts'
import { readOptions } from './options.ts'

export interface MessageRules {
  readonly definitions: QueueDefinitions | undefined
  /** The largest payload, and the largest headers, in bytes of JSON. */
  readonly payloadLimitBytes: number
}

/** The names of one message and its parts in errors. */
export interface MessageNames {
  readonly payload: string
  readonly options: string
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
  message: { readonly payload: unknown; readonly options: unknown },
  names: MessageNames,
): InsertRow | Promise<InsertRow> {
  const columns = readOptions(message.options, names.options)
  checkSize(columns.headers, `${names.options}.headers`, rules.payloadLimitBytes)
  const payload = encodeJson(message.payload, names.payload)
  checkSize(payload, names.payload, rules.payloadLimitBytes)
  const row = { ...columns, payload }
  const definition = rules.definitions?.[queue]
  if (definition?.schema === undefined) return row
  return checkSchema(definition, queue, payload, names.payload).then(() => row)
}

function checkSize(json: string, what: string, limit: number): void {
  // A code unit takes at most three bytes of UTF-8, so most strings need not be measured.
  if (json.length * 3 <= limit) return
  const bytes = Buffer.byteLength(json)
  if (bytes <= limit) return
  const sentence = `${what}: expected at most ${limit} bytes of JSON, received ${bytes}`
  throw new SluiceError('PAYLOAD_TOO_LARGE', `${sentence}. Store large content elsewhere and enqueue a reference to it`)
}

/**
 * Validates the payload as JSON gives it back, because that is what the schema gets when the message is delivered. So a
 * schema that no stored payload can satisfy fails here, and not in the dead letters.
 */
async function checkSchema(definition: QueueDefinition, queue: string, payload: string, what: string): Promise<void> {
  const stored: unknown = JSON.parse(payload)
  const result = await validatePayload(definition, stored)
  if ('value' in result) return
  // The payload is not quoted, because errors get into logs. The issues are the schema's own words.
  const received = typeof stored === 'object' ? describe(stored) : `a ${typeof stored}`
  const sentence = `${what}: expected what the schema of queue ${queue} accepts, received ${received}`
  throw new SluiceError('PAYLOAD_SCHEMA', `${sentence}. ${result.issues}`)
}

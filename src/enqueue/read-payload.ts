import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isPromise } from '../basics/promises/is-promise.ts'
import { SluiceError } from '../errors.ts'
import { fitting, type QueueDefinition } from '../queues.ts'
import { encodeJson } from './json.ts'

/** The names of one message or event and its parts in errors. */
export interface MessageNames {
  readonly payload: string
  readonly options: string
}

/** The names of one that is enqueued or appended alone. */
export const ALONE: MessageNames = { payload: 'payload', options: 'options' }

/** Where the payload goes. */
export interface Target {
  /** 'queue emails' or 'stream orders', in errors. */
  readonly name: string
  readonly definition: QueueDefinition | undefined
  readonly payloadLimitBytes: number
}

/**
 * The payload as JSON. Returns a promise only if its schema does: an enqueue that nothing awaits is then sent at once, before
 * the COMMIT that may follow it.
 *
 * @throws SluiceError PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA
 */
export function readPayload(target: Target, value: unknown, what: string): string | Promise<string> {
  const payload = encodeJson(value, what)
  checkSize(payload, what, target.payloadLimitBytes)
  const { definition } = target
  if (definition?.schema === undefined) return payload
  return checkSchema(definition.schema, target.name, payload, what)
}

/** @throws SluiceError PAYLOAD_TOO_LARGE */
export function checkSize(json: string, what: string, limit: number): void {
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
function checkSchema(schema: StandardSchemaV1, name: string, payload: string, what: string): string | Promise<string> {
  const value: unknown = JSON.parse(payload)
  const fitted = (answer: StandardSchemaV1.Result<unknown>) => {
    fitting(answer, value, what, `the schema of ${name}`)
    return payload
  }
  const result = schema['~standard'].validate(value)
  return isPromise(result) ? Promise.resolve(result).then(fitted) : fitted(result)
}

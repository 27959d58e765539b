import { attempted } from '../basics/errors/attempted.ts'
import { encodeJson } from '../enqueue/json.ts'
import { headersOf } from '../enqueue/labels.ts'
import { SluiceError } from '../errors.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { BuriedMessage } from '../table/receipt/receive.ts'
import type { ReceivedMessage } from './receiver.ts'
import { ownHeaders } from './relayed.ts'

/**
 * The payload as JSON: what the option `read` has made of the body, or the body as it came. It is not encoded anew, because
 * numbers may have more digits than JavaScript holds.
 *
 * @throws SluiceError PAYLOAD_INVALID
 */
export function payloadOf({ body }: ReceivedMessage, read: unknown): string {
  return read === undefined ? jsonOf(body) : encodeJson(read, 'read.payload')
}

/**
 * A message that can never be enqueued, as a dead letter: with its body if that is JSON, else with its bytes.
 *
 * @param known what it would have been enqueued with, as far as that could be read: a redrive enqueues it with that
 */
export function letterOf(received: ReceivedMessage, reason: string, known: Partial<InsertRow> = {}): BuriedMessage {
  const { type = null, orderingKey = null, schemaVersion = 1 } = known
  return {
    payload: known.payload ?? attempted(() => jsonOf(received.body)) ?? bytesOf(received.body),
    headers: known.headers ?? attempted(() => headersOf(ownHeaders(received), 'headers')) ?? '{}',
    reason,
    type,
    orderingKey,
    schemaVersion,
  }
}

/** A message that the server has refused: by bytes alone, of which it can refuse nothing. */
export function bareLetterOf({ body }: ReceivedMessage, reason: string): BuriedMessage {
  return { payload: bytesOf(body), headers: '{}', reason, type: null, orderingKey: null, schemaVersion: 1 }
}

function jsonOf(body: Uint8Array): string {
  const text = attempted(() => UTF_8.decode(body))
  const value = text === undefined ? undefined : attempted((): unknown => JSON.parse(text))
  // The error of JSON.parse would quote the body.
  if (text === undefined || value === undefined)
    throw new SluiceError('PAYLOAD_INVALID', `message.body: expected JSON in UTF-8, received ${body.byteLength} bytes`)
  if (MAY_HOLD_FOREIGN.test(text)) encodeJson(value, 'message.body')
  return text
}

function bytesOf(body: Uint8Array): string {
  const kept = body.subarray(0, MOST_BYTES)
  const base64 = Buffer.from(kept.buffer, kept.byteOffset, kept.byteLength).toString('base64')
  return JSON.stringify({ base64, bytes: body.byteLength })
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true })
/** An escaped NUL or half of a surrogate pair, neither of which jsonb takes. */
const MAY_HOLD_FOREIGN = /\\u(?:0000|d[89a-f])/i
/** In base64 it is less than the 256 MiB that a string in jsonb may have. */
const MOST_BYTES = 128 * 2 ** 20

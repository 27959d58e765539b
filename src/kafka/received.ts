import { attempted } from '../basics/errors/attempted.ts'
import type { ReceivedMessage } from '../inbox/receiver.ts'
import type { FetchedRecord } from './fetched.ts'

/** A record as the inbox takes it. A record without a value (a tombstone) is `null`. */
export function receivedOf({ topic, partition, offset, key, value, headers: pairs }: FetchedRecord): ReceivedMessage {
  const { id, ...headers } = headersOf(pairs)
  return {
    id: id || eventIdOf(headers) || `${topic}/${partition}/${offset}`,
    body: value ?? NOTHING,
    headers,
    type: headers.ce_type,
    orderingKey: key === null ? undefined : textOf(key) || undefined,
  }
}

/** Of several with a name the last, as in other clients of Kafka. */
function headersOf(pairs: FetchedRecord['headers']): Readonly<Record<string, string>> {
  return Object.fromEntries(pairs.map(([name, value]) => [textOf(name), textOf(value)]))
}

/** An id of a CloudEvent is one only together with its source, which has no spaces. */
function eventIdOf({ ce_source: source, ce_id: id }: Readonly<Record<string, string>>): string | undefined {
  return source === undefined || id === undefined ? undefined : `${source} ${id}`
}

/** Text as it is, and other bytes in base64: the database takes no NUL. */
function textOf(bytes: Buffer | null): string {
  if (bytes === null) return ''
  const text = attempted(() => UTF_8.decode(bytes))
  return text === undefined || text.includes('\0') ? bytes.toString('base64') : text
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const NOTHING = Buffer.from('null')

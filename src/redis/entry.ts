import type { ReceivedMessage } from '../inbox/receiver.ts'

/** An entry of a stream. */
export interface StreamEntry {
  readonly id: string
  /** Names and values by turns. Undefined: it has been removed from the stream since it was delivered. */
  readonly fields: readonly Buffer[] | undefined
}

/** The entries in an answer of the server, each a pair of its id and its fields. */
export function entriesIn(answer: unknown): readonly StreamEntry[] {
  return listOf(answer).map((pair) => {
    const [id, fields] = listOf(pair)
    return {
      id: String(id),
      fields: Array.isArray(fields) ? fields.filter((field) => Buffer.isBuffer(field)) : undefined,
    }
  })
}

/** The values in an answer of the server. */
export function listOf(answer: unknown): readonly unknown[] {
  return Array.isArray(answer) ? answer : []
}

/**
 * An entry as the inbox takes it: with the fields `id`, `body` and `headers` of a relay, of which the last may be missing. An
 * entry that has no body, or whose headers are no JSON object, is a body itself, as a JSON object of its fields.
 */
export function receivedOf(fields: readonly Buffer[]): ReceivedMessage {
  const named = new Map(pairsOf(fields))
  const id = named.get('id')?.toString() || undefined
  const body = named.get('body')
  const headers = headersOf(named.get('headers')?.toString() ?? '{}')
  if (body !== undefined && headers !== undefined) return { id, body, headers }
  const all = Object.fromEntries([...named].map(([name, value]) => [name, value.toString()]))
  return { id, body: Buffer.from(JSON.stringify(all)), headers: {} }
}

function pairsOf(fields: readonly Buffer[]): readonly (readonly [string, Buffer])[] {
  return fields.flatMap((value, at) => (at % 2 === 1 ? [[String(fields[at - 1]), value] as const] : []))
}

/** Strings as they are, and all other values as JSON. Undefined: it is not a JSON object. */
function headersOf(text: string): Readonly<Record<string, string>> | undefined {
  const value = parsed(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value)
  return Object.fromEntries(entries.map(([name, one]) => [name, typeof one === 'string' ? one : JSON.stringify(one)]))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

import { protocolErrors, type Reader } from '@platformatic/kafka'

/** What a request says of topics, and of the partitions of each. */
export function topicsOf<Part>(
  request: Reader,
  readPart: (request: Reader) => Part,
): readonly { readonly name: string; readonly parts: readonly Part[] }[] {
  return request.readArray((r) => ({ name: r.readString(false), parts: r.readArray(readPart, ...PLAIN) }), ...PLAIN)
}

/** The number of an error of Kafka. */
export function codeOf(error: string): number {
  const { code } = protocolErrors[error] ?? {}
  if (code === undefined) throw new Error(`${error} is no error of Kafka`)
  return code
}

/** Arrays as they were before the protocol became flexible. */
export const PLAIN = [false, false] as const

import { expected } from '../errors.ts'
import type { Message } from '../message.ts'
import { attributesOf, type Identity, wrongAttribute } from './cloud-event.ts'
import type { Destination } from './destination.ts'

/**
 * What is published of a message. `plain`: its payload, and headers. `cloudevents-binary`: the same, and headers with the
 * attributes of a CloudEvent 1.0, where the destination has this mode. `cloudevents-structured`: the body is a CloudEvent in
 * JSON, and its data is the payload.
 */
export type RelayFormat = 'plain' | 'cloudevents-binary' | 'cloudevents-structured'

/** A format for one destination. */
export type FormatPlan =
  | { readonly kind: 'plain' | 'cloudevents-structured' }
  | { readonly kind: 'cloudevents-binary'; readonly header: NonNullable<Destination['cloudEventHeader']> }

/** A body, and the headers that the format adds to those of the message. */
interface Formatted {
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * A message in a format. Text: why it cannot be published in it.
 *
 * @param payload JSON, as it is stored
 */
export function formatted(
  format: FormatPlan,
  message: Message,
  identity: Identity,
  payload: string,
): Formatted | string {
  if (format.kind === 'plain') return { body: payload }
  const attributes = attributesOf(message, identity)
  const headers = format.kind === 'cloudevents-binary' ? headersOf(attributes, format.header) : STRUCTURED
  const wrong = takenHeader(format, message, headers) ?? wrongAttribute(attributes)
  if (wrong !== undefined) return wrong
  if (format.kind === 'cloudevents-binary') return { body: payload, headers }
  // Around the text of the payload: its numbers may have more digits than those of JavaScript.
  return { body: `${JSON.stringify(attributes).slice(0, -1)},"data":${payload}}`, headers }
}

/** Why a message cannot have the headers of the format. Undefined: it can. */
function takenHeader(
  { kind }: FormatPlan,
  message: Message,
  added: NonNullable<Formatted['headers']>,
): string | undefined {
  const own = Object.keys(message.headers)
  if (own.length === 0) return undefined
  const names = new Set(Object.keys(added).map((name) => name.toLowerCase()))
  const taken = own.find((name) => names.has(name.toLowerCase()))
  if (taken === undefined) return undefined
  return `header ${JSON.stringify(taken)}: expected a name that the format ${kind} does not use`
}

/** @throws SluiceError OPTION_INVALID */
export function resolveFormat(what: string, format: unknown, to: Destination): FormatPlan {
  const { system, cloudEventHeader: header } = to
  switch (format) {
    case undefined:
    case 'plain':
      return { kind: 'plain' }
    case 'cloudevents-structured':
      return { kind: format }
    case 'cloudevents-binary': {
      if (header !== undefined) return { kind: format, header: header.bind(to) }
      const wanted = `'plain' or 'cloudevents-structured', because ${system} has no binary mode for CloudEvents`
      throw expected('OPTION_INVALID', what, wanted, format)
    }
    default:
      throw expected('OPTION_INVALID', what, "'plain', 'cloudevents-binary' or 'cloudevents-structured'", format)
  }
}

function headersOf(
  attributes: Readonly<Record<string, string>>,
  header: NonNullable<Destination['cloudEventHeader']>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => header(name, value)))
}

const STRUCTURED: Readonly<Record<string, string>> = {
  'content-type': 'application/cloudevents+json; charset=UTF-8',
}

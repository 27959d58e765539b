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
  readonly headers: Readonly<Record<string, string>>
}

/** @param payload JSON, as it is stored */
export function formatted(format: FormatPlan, message: Message, identity: Identity, payload: string): Formatted {
  if (format.kind === 'plain') return { body: payload, headers: {} }
  const attributes = attributesOf(message, identity)
  if (format.kind === 'cloudevents-binary') return { body: payload, headers: headersOf(attributes, format.header) }
  // Around the text of the payload: its numbers may have more digits than those of JavaScript.
  const body = `${JSON.stringify(attributes).slice(0, -1)},"data":${payload}}`
  return { body, headers: STRUCTURED }
}

/** Why a message cannot be published in a format. Undefined: it can. */
export function refusalBy(format: FormatPlan, message: Message, identity: Identity): string | undefined {
  if (format.kind === 'plain') return undefined
  const attributes = attributesOf(message, identity)
  const added = format.kind === 'cloudevents-binary' ? headersOf(attributes, format.header) : STRUCTURED
  const names = new Set(Object.keys(added).map((name) => name.toLowerCase()))
  const taken = Object.keys(message.headers).find((name) => names.has(name.toLowerCase()))
  if (taken === undefined) return wrongAttribute(attributes)
  return `header ${JSON.stringify(taken)}: expected a name that the format ${format.kind} does not use`
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

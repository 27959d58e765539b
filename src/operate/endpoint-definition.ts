import { checkKeys } from '../basics/checks/check-keys.ts'
import { integerWithin, storable } from '../basics/checks/options.ts'
import { labelOf, typeOf } from '../enqueue/labels.ts'
import { expected } from '../errors.ts'
import type { EndpointParams } from '../table/endpoint/define-endpoint.ts'

/** An endpoint, as a whole: what is left out has its default. */
export interface EndpointDefinition {
  /** The address of its requests: `https`, without a user name, a password and a fragment. */
  readonly url: string
  /** Whose it is, such as a customer: it gets the events of this owner. @default it gets events without an owner */
  readonly owner?: string | undefined
  /** The types of event that it gets, 1 to 1,000. @default all */
  readonly types?: readonly string[] | undefined
  /** Headers of its requests beside those of webhooks. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Whether it gets one event after another, in order. @default false */
  readonly ordered?: boolean | undefined
  /**
   * How many of its messages may be in flight, over all processes, 1 to 10,000. Not with `ordered`, and only in a queue with
   * `tenantConcurrency`. @default the `tenantConcurrency` of the queue
   */
  readonly concurrency?: number | undefined
  /** Your own secret: `whsec_` and the base64 of 24 to 64 bytes. @default the one that it has, or one that is made */
  readonly secret?: string | undefined
}

/** @throws SluiceError OPTION_INVALID */
export function readEndpoint(given: unknown): EndpointParams {
  checkKeys('endpoint', given, KEYS, AS_ENDPOINT)
  const { url, owner, types, headers, ordered, concurrency, secret }: GivenEndpoint = given
  if (ordered !== undefined && typeof ordered !== 'boolean')
    throw expected('OPTION_INVALID', 'endpoint.ordered', 'true or false', ordered)
  return {
    url: urlOf(url),
    owner: labelOf(owner, 'endpoint.owner', 'a string'),
    types: typesOf(types),
    headers: headersOf(headers ?? {}),
    ordered: ordered ?? false,
    concurrency: concurrencyOf(concurrency, ordered ?? false),
    secret: secretOf('endpoint.secret', secret),
  }
}

/** The same rule as the table's constraint. @throws SluiceError OPTION_INVALID */
export function checkEndpointName(name: unknown): string {
  if (typeof name === 'string' && /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/.test(name)) return name
  const wanted = 'a name of 1 to 100 letters, digits and _ . : - (none of . : - first)'
  throw expected('OPTION_INVALID', 'endpoint', wanted, name, "For example 'acme-crm'")
}

/** A secret, which no error quotes; null: none is given. @throws SluiceError OPTION_INVALID */
export function secretOf(what: string, secret: unknown): string | null {
  if (secret === undefined) return null
  if (
    typeof secret === 'string' &&
    /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(secret)
  ) {
    const bytes = Buffer.from(secret.slice('whsec_'.length), 'base64').byteLength
    if (bytes >= 24 && bytes <= 64) return secret
  }
  const received = typeof secret === 'string' ? 'something else' : typeof secret
  throw expected(
    'OPTION_INVALID',
    what,
    'whsec_ and the base64 of 24 to 64 bytes',
    received,
    'Leave it out for one that is made',
  )
}

type GivenEndpoint = { readonly [Key in keyof EndpointDefinition]?: unknown }

const KEYS: readonly (keyof EndpointDefinition)[] = [
  'url',
  'owner',
  'types',
  'headers',
  'ordered',
  'concurrency',
  'secret',
]
const AS_ENDPOINT = "As in endpoints.set('webhooks', 'acme-crm', { url: 'https://acme.example/hooks', owner: 'acme' })"

function urlOf(given: unknown): string {
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : undefined
  const isFit =
    url !== undefined &&
    (url.protocol === 'https:' || url.protocol === 'http:') &&
    `${url.username}${url.password}${url.hash}` === '' &&
    Buffer.byteLength(url.href) <= 2_000
  if (isFit) return url.href
  const wanted = 'an address of https, of at most 2,000 bytes, without a user name, a password and a fragment'
  // It may hold a password.
  const received = typeof given === 'string' ? 'another string' : typeof given
  throw expected('OPTION_INVALID', 'endpoint.url', wanted, received, AS_ENDPOINT)
}

function concurrencyOf(concurrency: unknown, ordered: boolean): number | null {
  if (concurrency === undefined) return null
  const most = integerWithin('endpoint.concurrency', concurrency, 1, 10_000)
  if (!ordered) return most
  throw expected(
    'OPTION_INVALID',
    'endpoint.concurrency',
    'none with ordered',
    most,
    'An ordered endpoint has one in flight',
  )
}

function typesOf(types: unknown): readonly string[] | null {
  if (types === undefined) return null
  if (!Array.isArray(types) || types.length < 1 || types.length > 1_000)
    throw expected('OPTION_INVALID', 'endpoint.types', '1 to 1,000 types', types, 'Leave it out for all types')
  return types.map((given: unknown, at) => {
    const type = typeOf(given, `endpoint.types[${at}]`)
    if (type === null) throw expected('OPTION_INVALID', `endpoint.types[${at}]`, 'a type such as order.paid', given)
    return type
  })
}

/** By their names in lower case. */
function headersOf(headers: unknown): Readonly<Record<string, string>> {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    throw expected('OPTION_INVALID', 'endpoint.headers', 'an object of strings', headers)
  return Object.fromEntries(
    Object.entries(headers).map(([given, value]: [string, unknown]) => {
      const name = given.toLowerCase()
      const what = `endpoint.headers[${JSON.stringify(given)}]`
      if (!TOKEN.test(name)) throw expected('OPTION_INVALID', what, 'the name of a header of HTTP', given)
      if (OWN.test(name)) throw expected('OPTION_INVALID', what, 'a header that is not of the request itself', given)
      if (typeof value !== 'string' || !VALUE.test(value))
        throw expected('OPTION_INVALID', what, 'a string of visible ASCII characters and spaces', typeof value)
      return [name, storable(what, value)]
    }),
  )
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const VALUE = /^[\x20-\x7e]{0,4000}$/
const OWN =
  /^(?:webhook-.*|proxy-.*|host|content-type|content-length|content-encoding|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect)$/

import { checkKeys } from '../basics/checks/check-keys.ts'
import { expected } from '../errors.ts'
import { deadLetter, type Message, type Outcome, retryLater } from '../message.ts'
import { checkFunction, type HandlerContext } from './handler.ts'
import { toOutcome } from './to-outcome.ts'

/** A handler for the types that a pattern matches. `Context` is what handlers of its pipeline's mode get. */
export interface Route<Payload = unknown, Context = HandlerContext> {
  /** Segments separated by dots; `*` is any one segment, `**`, at the end, any that remain, or none. */
  readonly match: string
  /** Called for the messages whose type matches. */
  readonly handle: RouteHandler<Payload, Context>
}

/** Structural, and not a `Handler`, so that the compiler finds the context of handlers that have a type already. */
type RouteHandler<Payload, Context> = (
  message: Message<Payload>,
  context: Context,
) => Outcome | void | Promise<Outcome | void>

/** What `routes` takes beside the routes. */
export interface RoutesOptions {
  /** What happens to a message without a type, or with one that no route matches. @default 'retryLater' */
  readonly unmatched?: 'deadLetter' | 'ack' | 'retryLater' | undefined
}

/**
 * One handler of many, chosen by the message's type. Every route that matches is called, in order, with the same
 * context: the message is acked if all of them ack; the first other outcome, or the first error, ends it. In
 * transactional mode they share one transaction. In leased mode only one of them may call `transaction()`, the last that
 * matches, because it ends the message. A message whose type no route matches, or that has none, has failed and is tried
 * again, by a newer version of the application for example, unless `unmatched` says otherwise.
 *
 * @example
 * sluice.pipeline('orders').handle(routes([
 *   { match: 'Orders.*.Paid', handle: ship },
 *   { match: 'Orders.**', handle: record },
 * ])).start()
 *
 * @throws SluiceError OPTION_INVALID
 */
export function routes<Payload = unknown, Context = HandlerContext>(
  table: readonly Route<Payload, Context>[],
  options: RoutesOptions = {},
): RouteHandler<Payload, Context> {
  checkKeys('routes', options, ['unmatched'])
  const unmatched = unmatchedOutcome(options.unmatched ?? 'retryLater')
  if (!Array.isArray(table) || table.length === 0)
    throw expected('OPTION_INVALID', 'routes', 'an array of one route or more', table, REMEDY)
  const compiled = table.map(compile)
  return async (message, context) => {
    const matching = compiled.filter(({ matches }) => message.type !== null && matches(message.type))
    return matching.length === 0 ? unmatched(message) : callAll(matching, message, context)
  }
}

const REMEDY = "As in routes([{ match: 'Orders.*.Paid', handle: ship }])"

function compile<Payload, Context>(
  route: Route<Payload, Context>,
  at: number,
): { readonly matches: (type: string) => boolean; readonly handle: RouteHandler<Payload, Context> } {
  const what = `routes[${at}]`
  checkKeys(what, route, ['match', 'handle'], REMEDY)
  return { matches: typeMatcher(route.match), handle: checkFunction(`${what}.handle`, route.handle) }
}

async function callAll<Payload, Context>(
  matching: readonly Pick<Route<Payload, Context>, 'handle'>[],
  message: Message<Payload>,
  context: Context,
): Promise<Outcome | void> {
  for (const { handle } of matching) {
    const outcome = toOutcome(await handle(message, context))
    if (outcome.kind !== 'ack') return outcome
  }
}

/** Whether types match a pattern. @throws SluiceError OPTION_INVALID for a pattern that could never match. */
export function typeMatcher(pattern: string): (type: string) => boolean {
  const wanted = typeof pattern === 'string' ? pattern.split('.') : []
  const rest = wanted.at(-1) === '**'
  if (rest) wanted.pop()
  if (
    (wanted.length === 0 && !rest) ||
    wanted.some((segment) => segment === '' || (segment.includes('*') && segment !== '*'))
  ) {
    throw expected(
      'OPTION_INVALID',
      'routes.match',
      "segments separated by dots, '*' for one, '**' at the end for the rest",
      pattern,
    )
  }
  return (type) => {
    const segments = type.split('.')
    if (rest ? segments.length < wanted.length : segments.length !== wanted.length) return false
    return wanted.every((segment, at) => segment === '*' || segment === segments[at])
  }
}

function unmatchedOutcome(policy: unknown): (message: Message) => Outcome {
  switch (policy) {
    case 'deadLetter':
      return (message) => deadLetter(`no route matches the type ${JSON.stringify(message.type)}`)
    case 'ack':
      return () => ({ kind: 'ack' })
    case 'retryLater':
      return (message) => retryLater({ error: `no route matches the type ${JSON.stringify(message.type)}` })
    default:
      throw expected('OPTION_INVALID', 'routes.unmatched', "'deadLetter', 'ack' or 'retryLater'", policy)
  }
}

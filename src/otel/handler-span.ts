import {
  type Attributes,
  type Context,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { Watch, WatchedCall } from '../telemetry/instrument.ts'
import { contextOf, senderOf } from './carry.ts'
import { destinationOf } from './destination-of.ts'
import { fail } from './fail.ts'
import type { Guard } from './guard.ts'
import { Kept } from './kept.ts'
import { ATTRIBUTE, OPERATION, SYSTEM } from './names.ts'
import { runWithin } from './run-within.ts'

/** How the span of a handler belongs to the one that enqueued its message. */
export type Join = 'parent' | 'link'

/** Starts the spans of handlers. */
export class HandlerSpans {
  readonly #tracer: Tracer
  readonly #join: Join
  readonly #guard: Guard
  readonly #common = new Kept(commonOf)

  constructor(tracer: Tracer, join: Join, guard: Guard) {
    this.#tracer = tracer
    this.#join = join
    this.#guard = guard
  }

  /** The span of one call of a handler; undefined if the SDK makes none. */
  start(call: WatchedCall): Watch | undefined {
    const { name, attributes } = this.#common.of(call.queue)
    const options = { kind: SpanKind.CONSUMER, attributes: attributesOf(call, attributes) }
    const isChild = call.kind === 'each' && this.#join === 'parent'
    const parent = isChild ? parentOf(call) : ROOT_CONTEXT
    const all = isChild ? options : { ...options, links: linksOf(call) }
    const span = this.#guard.try(() => this.#tracer.startSpan(name, all, parent)) ?? undefined
    return span && new HandlerSpan(span, this.#guard)
  }
}

/** The span of one call of a handler, in which it runs. */
class HandlerSpan implements Watch {
  readonly #span: Span
  readonly #guard: Guard
  /** Not what was active where the pipeline was started. */
  readonly #context: Context

  constructor(span: Span, guard: Guard) {
    this.#span = span
    this.#guard = guard
    this.#context = trace.setSpan(ROOT_CONTEXT, span)
  }

  run<T>(call: () => T): T {
    return runWithin(this.#guard, this.#context, call)
  }

  ended(outcomes: readonly { readonly kind: string }[]): void {
    const [outcome] = outcomes
    if (outcomes.length === 1 && outcome !== undefined)
      this.#guard.try(() => this.#span.setAttribute(ATTRIBUTE.outcome, outcome.kind))
    this.#guard.try(() => this.#span.end())
  }

  failed(error: unknown): void {
    fail(this.#span, error, this.#guard)
    this.#guard.try(() => this.#span.end())
  }
}

function parentOf({ messages }: WatchedCall): Context {
  return contextOf(senderOf(messages[0]?.headers ?? '{}'))
}

/** As many as a span keeps by default. */
const MOST_LINKS = 128

function linksOf({ messages }: WatchedCall): Link[] {
  const links = messages.flatMap(({ headers }) => {
    const context = senderOf(headers)
    return context === undefined ? [] : [{ context }]
  })
  return links.slice(0, MOST_LINKS)
}

/** What the spans of a queue have in common. */
function commonOf(queue: string) {
  const attributes = {
    [ATTRIBUTE.system]: SYSTEM,
    [ATTRIBUTE.operation]: OPERATION.process,
    [ATTRIBUTE.operationType]: OPERATION.process,
    ...destinationOf(queue),
  }
  return { name: `${OPERATION.process} ${queue}`, attributes }
}

function attributesOf({ kind, messages }: WatchedCall, common: Attributes): Attributes {
  const attributes = { ...common }
  const [message] = messages
  if (kind === 'batch' || message === undefined) attributes[ATTRIBUTE.batchSize] = messages.length
  else {
    attributes[ATTRIBUTE.messageId] = message.id
    attributes[ATTRIBUTE.attempt] = message.attempt
    if (message.type !== null) attributes[ATTRIBUTE.messageType] = message.type
  }
  return attributes
}

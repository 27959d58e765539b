import {
  type Attributes,
  type Context,
  context,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { streamOf } from '../streams.ts'
import type { Watch, WatchedCall } from '../telemetry/instrument.ts'
import { contextOf, senderOf } from './carry.ts'
import { fail } from './fail.ts'
import { ATTRIBUTE, OPERATION, SYSTEM } from './names.ts'

/** How the span of a handler belongs to the one that enqueued its message. */
export type Join = 'parent' | 'link'

/** The span of one call of a handler, in which it runs. */
export class HandlerSpan implements Watch {
  readonly #span: Span
  readonly #context: Context

  constructor(tracer: Tracer, call: WatchedCall, join: Join) {
    const senders = call.messages.flatMap(({ headers }) => senderOf(headers) ?? [])
    const isChild = call.kind === 'each' && join === 'parent'
    const parent = isChild ? contextOf(senders[0]) : ROOT_CONTEXT
    const links = isChild ? [] : linksOf(senders.slice(0, MOST_LINKS))
    const options = { kind: SpanKind.CONSUMER, attributes: attributesOf(call), links }
    this.#span = tracer.startSpan(`${OPERATION.process} ${call.queue}`, options, parent)
    // Not what was active where the pipeline was started.
    this.#context = trace.setSpan(parent, this.#span)
  }

  run<T>(call: () => T): T {
    return context.with(this.#context, call)
  }

  ended(outcomes: readonly { readonly kind: string }[]): void {
    const [outcome] = outcomes
    if (outcomes.length === 1 && outcome !== undefined) this.#span.setAttribute(ATTRIBUTE.outcome, outcome.kind)
    this.#span.end()
  }

  failed(error: unknown): void {
    fail(this.#span, error)
    this.#span.end()
  }
}

/** As many as a span keeps by default. */
const MOST_LINKS = 128

function linksOf(senders: readonly Link['context'][]): Link[] {
  return senders.map((sender) => ({ context: sender }))
}

function attributesOf({ kind, queue, messages }: WatchedCall): Attributes {
  const [message] = messages
  return {
    [ATTRIBUTE.system]: SYSTEM,
    [ATTRIBUTE.operation]: OPERATION.process,
    [ATTRIBUTE.operationType]: OPERATION.process,
    ...destinationOf(queue),
    ...(kind === 'batch' || message === undefined
      ? { [ATTRIBUTE.batchSize]: messages.length }
      : {
          [ATTRIBUTE.messageId]: message.id,
          [ATTRIBUTE.attempt]: message.attempt,
          ...(message.type !== null && { [ATTRIBUTE.messageType]: message.type }),
        }),
  }
}

/** The queue of a group is called `stream:group`. */
export function destinationOf(queue: string): Attributes {
  if (!queue.includes(':')) return { [ATTRIBUTE.destination]: queue }
  const stream = streamOf(queue)
  return { [ATTRIBUTE.destination]: stream, [ATTRIBUTE.group]: queue.slice(stream.length + 1) }
}

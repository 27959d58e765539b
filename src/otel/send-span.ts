import { type Attributes, context, type Span, SpanKind, type Tracer, trace } from '@opentelemetry/api'
import type { Send } from '../telemetry/instrument.ts'
import type { TraceContext } from '../telemetry/trace-context.ts'
import { carried } from './carry.ts'
import { fail } from './fail.ts'
import type { Guard } from './guard.ts'
import { ATTRIBUTE, OPERATION, SYSTEM } from './names.ts'
import { runWithin } from './run-within.ts'

/** The span of one enqueue or append, whose context goes with all of its messages. */
export async function sendInSpan<T>(
  tracer: Tracer,
  guard: Guard,
  send: Send,
  run: (context: TraceContext | undefined) => Promise<T[]>,
): Promise<T[]> {
  const options = { kind: SpanKind.PRODUCER, attributes: attributesOf(send) }
  const span = guard.try(() => tracer.startSpan(`${OPERATION.send} ${send.to}`, options)) ?? undefined
  if (span === undefined) return run(undefined)
  const traceContext = carried(span, guard)
  const active = guard.try(() => context.active())
  const within = active && guard.try(() => trace.setSpan(active, span))
  try {
    const answers = await (within ? runWithin(guard, within, () => run(traceContext)) : run(traceContext))
    if (answers.length === 1) guard.try(() => setId(span, send, answers[0]))
    return answers
  } catch (error) {
    fail(span, error, guard)
    throw error
  } finally {
    guard.try(() => span.end())
  }
}

function attributesOf({ to, messages }: Send): Attributes {
  return {
    [ATTRIBUTE.system]: SYSTEM,
    [ATTRIBUTE.operation]: OPERATION.send,
    [ATTRIBUTE.operationType]: OPERATION.send,
    [ATTRIBUTE.destination]: to,
    ...(messages > 1 && { [ATTRIBUTE.batchSize]: messages }),
  }
}

/** An answer is an id, a position, or what became of a dedupe key. An event is named as its handlers name it. */
function setId(span: Span, { kind, to }: Send, answer: unknown): unknown {
  const id: unknown = typeof answer === 'object' && answer !== null && 'id' in answer ? answer.id : answer
  return span.setAttribute(ATTRIBUTE.messageId, kind === 'append' ? `${to}/${String(id)}` : String(id))
}

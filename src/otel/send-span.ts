import { type Attributes, context, type Span, SpanKind, type Tracer, trace } from '@opentelemetry/api'
import type { Send } from '../telemetry/instrument.ts'
import type { TraceContext } from '../telemetry/trace-context.ts'
import { carried } from './carry.ts'
import { fail } from './fail.ts'
import { guarded } from './guarded.ts'
import { ATTRIBUTE, OPERATION, SYSTEM } from './names.ts'

/** The span of one enqueue or append, whose context goes with all of its messages. */
export async function sendInSpan<T>(
  tracer: Tracer,
  send: Send,
  run: (context: TraceContext | undefined) => Promise<T[]>,
): Promise<T[]> {
  const attributes = attributesOf(send)
  const span = guarded(() => tracer.startSpan(`${OPERATION.send} ${send.to}`, { kind: SpanKind.PRODUCER, attributes }))
  if (span === undefined) return run(undefined)
  try {
    const answers = await context.with(trace.setSpan(context.active(), span), () => run(carried(span)))
    if (answers.length === 1) guarded(() => setId(span, send, answers[0]))
    return answers
  } catch (error) {
    guarded(() => fail(span, error))
    throw error
  } finally {
    guarded(() => span.end())
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
function setId(span: Span, { kind, to }: Send, answer: unknown): void {
  const id: unknown = typeof answer === 'object' && answer !== null && 'id' in answer ? answer.id : answer
  span.setAttribute(ATTRIBUTE.messageId, kind === 'append' ? `${to}/${String(id)}` : String(id))
}

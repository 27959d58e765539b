import type { Outlet } from '../handle/consumption.ts'
import type { Poster } from '../outbound/poster.ts'
import { RunnablePipeline } from '../pipeline/pipeline.ts'
import type { Consumers } from '../process/consumers.ts'
import type { Alphabet } from '../session/alphabet.ts'
import type { EndpointChange } from '../table/endpoint/call-endpoints.ts'
import type { SluiceEvent } from '../telemetry/events.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import { EndpointCalls } from './endpoint-calls.ts'
import { resolveWebhooks, type WebhooksOptions, type WebhooksPlan } from './options.ts'
import { WebhookHandler } from './webhook-handler.ts'

/** What the webhooks of a process share. */
export interface WebhooksRuntime {
  readonly consumers: Consumers
  readonly inTransaction: InOwnTransaction
  readonly alphabet: Alphabet
}

/** A leased pipeline that sends what it claims to endpoints. */
export function webhooksOf(queue: string, options: WebhooksOptions, runtime: WebhooksRuntime): RunnablePipeline {
  const plan = resolveWebhooks(queue, options)
  const { consumers } = runtime
  return new RunnablePipeline(
    plan.pipeline,
    () => ({ handler: handlerOf(plan, runtime), outlet: AS_STORED }),
    consumers,
  )
}

function handlerOf(plan: WebhooksPlan, { consumers, inTransaction, alphabet }: WebhooksRuntime): WebhookHandler {
  const { report } = consumers
  const { queue } = plan.pipeline
  const calls = new EndpointCalls({
    queue,
    disableMs: plan.disableMs,
    alphabet,
    inTransaction,
    onChange: (change) => report(eventOf(queue, change)),
  })
  let poster: Promise<Poster> | undefined
  const load = () => {
    poster ??= import('../outbound/poster.ts').then((module) => new module.Poster(plan.outbound))
    return poster
  }
  return new WebhookHandler({ plan, calls, poster: load, report })
}

function eventOf(queue: string, { name, event, failingSince, reason }: EndpointChange): SluiceEvent {
  return event === 'failing'
    ? { kind: 'endpoint.failing', queue, endpoint: name, since: failingSince ?? new Date(), error: reason }
    : { kind: 'endpoint.disabled', queue, endpoint: name, since: failingSince, reason }
}

/** Payloads leave as they are stored, and do not go through the schema of their queue again. Nothing is ever out of reach as a whole. */
const AS_STORED: Outlet = {
  isDown: false,
  peer: undefined,
  enter: async () => ({ isProbe: false, over: () => undefined }),
  close: async () => undefined,
}

import { type AppendContext, appendMany, appendOne, type EventToAppend } from '../enqueue/append.ts'
import type { AppendOptions } from '../enqueue/append-options.ts'
import {
  type DedupedMessage,
  type EnqueueContext,
  enqueueMany,
  enqueueOne,
  type MessageToEnqueue,
} from '../enqueue/enqueue.ts'
import { type ReceivedOptions, received } from '../enqueue/received.ts'
import { sendToEndpoints, type WebhookEvent } from '../enqueue/send-webhook.ts'
import { ownTransaction, type TransactionHost } from '../enqueue/within.ts'
import type { EnqueueIn } from '../handle/run-context.ts'
import type { DedupedOptions, EnqueueOptions } from '../message-options.ts'
import type { SentWebhook } from '../table/endpoint/send-webhook.ts'
import type { EnqueueResult } from '../table/enqueue/insert-deduped.ts'
import type { ReceiptKey } from '../table/receipt/receive.ts'
import type { Calls } from './calls.ts'
import type { Shared } from './shared.ts'

/** The enqueues and appends of a Sluice. One in the caller's own transaction needs no connection of ours, so a stop does not wait for it. */
export class Enqueues {
  readonly context: ProducerContext
  readonly #calls: Calls

  constructor(context: ProducerContext, calls: Calls) {
    this.context = context
    this.#calls = calls
  }

  one(
    tx: unknown,
    queue: string,
    payload: unknown,
    options?: EnqueueOptions | DedupedOptions,
  ): Promise<string | EnqueueResult> {
    return this.#during(tx, () => enqueueOne(this.context, tx, queue, payload, options))
  }

  many(
    tx: unknown,
    queue: string,
    messages: readonly (MessageToEnqueue | DedupedMessage)[],
  ): Promise<(string | EnqueueResult)[]> {
    return this.#during(tx, () => enqueueMany(this.context, tx, queue, messages))
  }

  webhook(tx: unknown, queue: string, event: WebhookEvent): Promise<readonly SentWebhook[]> {
    return this.#during(tx, () => sendToEndpoints(this.context, tx, queue, event))
  }

  append(tx: unknown, stream: string, payload: unknown, options?: AppendOptions): Promise<number> {
    return this.#during(tx, () => appendOne(this.context, tx, stream, payload, options))
  }

  appendMany(tx: unknown, stream: string, events: readonly EventToAppend[]): Promise<number[]> {
    return this.#during(tx, () => appendMany(this.context, tx, stream, events))
  }

  received(tx: unknown, queue: string, key: ReceiptKey, options: ReceivedOptions): Promise<boolean> {
    return received(this.context, tx, queue, key, options)
  }

  #during<T>(tx: unknown, enqueue: () => Promise<T>): Promise<T> {
    return tx === ownTransaction ? this.#calls.run(enqueue) : enqueue()
  }
}

/** What enqueues and appends need of a Sluice. */
export type ProducerContext = EnqueueContext & AppendContext

export function producerContext(
  { config, alphabet, sends }: Shared,
  { inOwnTransaction, inOnePacket }: TransactionHost,
): ProducerContext {
  const { definitions, streams, payloadLimitBytes, retryPolicies } = config
  return { definitions, streams, payloadLimitBytes, retryPolicies, alphabet, sends, inOwnTransaction, inOnePacket }
}

/** Enqueues in the transaction of a handler. A stop waits for the handler. */
export function enqueueInHandler(context: EnqueueContext): EnqueueIn {
  return (tx, queue, payload, options) => enqueueOne(context, tx, queue, payload, options)
}

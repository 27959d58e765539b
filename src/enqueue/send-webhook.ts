import { checkKeys } from '../basics/checks/check-keys.ts'
import { given } from '../basics/given.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Headers } from '../message.ts'
import { checkQueueName } from '../queues.ts'
import { refuseStream } from '../streams.ts'
import { orEndpointUnknown } from '../table/endpoint/endpoint-unknown.ts'
import { type SentWebhook, sendWebhook } from '../table/endpoint/send-webhook.ts'
import { checkAlphabet, checkText } from './alphabet-check.ts'
import { callFor } from './call.ts'
import type { EnqueueContext } from './enqueue.ts'
import { labelOf } from './labels.ts'
import { readMessage } from './read-message.ts'
import { checkOrder, during, within } from './within.ts'

/** An event for endpoints, and for which. */
export interface WebhookEvent<Payload = unknown> {
  /** Dot-separated, such as `order.paid`: endpoints choose events by it, and receivers get it. */
  readonly type: string
  /** What the receivers get as `data`: a value that JSON can hold; if the queue has a schema, one that it accepts. */
  readonly payload: Payload
  /** Whose endpoints get it. @default those without an owner */
  readonly owner?: string | undefined
  /** The one endpoint that gets it, whatever its owner and its types are; not with `owner`. */
  readonly endpoint?: string | undefined
  /** Metadata of the messages. It is not sent. */
  readonly headers?: Headers | undefined
  /** The version of the payload's schema, from 1. @default 1 */
  readonly schemaVersion?: number | undefined
}

/**
 * Makes a message for each endpoint that gets the event, in the caller's transaction.
 *
 * @throws SluiceError as `enqueue`, and ENDPOINT_UNKNOWN
 */
export function sendToEndpoints(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  event: WebhookEvent,
): Promise<readonly SentWebhook[]> {
  return during(tx, send(context, tx, queue, event))
}

async function send(context: EnqueueContext, tx: unknown, queue: string, event: unknown): Promise<SentWebhook[]> {
  checkOrder(tx, queue, 'sendWebhook(tx, queue, { type, payload })')
  refuseStream(queue, context, 'give a queue of its own to webhooks')
  const name = checkQueueName(queue, context.definitions)
  checkKeys('event', event, KEYS, AS_EVENT)
  const { type, payload, owner, endpoint, headers, schemaVersion }: GivenEvent = event
  if (type === undefined) throw expected('OPTION_INVALID', 'event.type', 'the type of the event', type, AS_EVENT)
  const receivers = {
    owner: labelOf(owner, 'event.owner', 'a string'),
    endpoint: labelOf(endpoint, 'event.endpoint', 'the name of an endpoint'),
  }
  if (receivers.owner !== null && receivers.endpoint !== null)
    throw new SluiceError('OPTION_INVALID', 'event: expected owner or endpoint, received both. Leave one of them out')
  const read = readMessage(context, name, { payload, options: given({ type, headers, schemaVersion }) }, NAMES)
  const call = callFor(`a webhook of queue ${name}`, read)
  const row = read instanceof Promise ? await read : read
  try {
    return await context.sends.run('enqueue', name, [row], (rows) =>
      within(context, tx, call, async (execute) => {
        await checkAlphabet(context.alphabet, execute, rows, () => NAMES)
        await checkText(context.alphabet, execute, receivers.owner, 'event.owner')
        await checkText(context.alphabet, execute, receivers.endpoint, 'event.endpoint')
        return sendWebhook(execute, name, rows[0]!, receivers)
      }),
    )
  } catch (error) {
    throw orEndpointUnknown(error, name, receivers.endpoint ?? '')
  }
}

type GivenEvent = { readonly [Key in keyof WebhookEvent]?: unknown }

const KEYS: readonly (keyof WebhookEvent)[] = ['type', 'payload', 'owner', 'endpoint', 'headers', 'schemaVersion']
const NAMES = { payload: 'event.payload', options: 'event' }
const AS_EVENT = "As in sendWebhook(tx, 'webhooks', { type: 'order.paid', payload: order, owner: 'acme' })"

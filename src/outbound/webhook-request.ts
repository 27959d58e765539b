import { VERSION } from '../basics/version.ts'
import type { OutboundRequest } from './poster.ts'
import { signatureOf } from './signature.ts'

/** To whom a webhook goes. */
export interface WebhookTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly secrets: readonly string[]
}

/** An event on its way out. */
export interface OutgoingEvent {
  /** The same in each attempt. It has no dot: the signature is of `<id>.<timestamp>.<body>`. */
  readonly id: string
  readonly type: string
  /** When it was sent by the application. */
  readonly at: Date
  /** The payload as JSON, as it is stored. */
  readonly payload: string
}

/** The signed request of an attempt that is made now. */
export function webhookRequest(target: WebhookTarget, event: OutgoingEvent, nowMs: number): OutboundRequest {
  const { id, type, at, payload } = event
  const head = `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(at.toISOString())}`
  const body = Buffer.from(`${head},"data":${payload}}`)
  const timestamp = String(Math.floor(nowMs / 1_000))
  const headers = {
    'user-agent': `sluice/${VERSION}`,
    ...target.headers,
    'content-type': 'application/json',
    'content-length': String(body.byteLength),
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatureOf(id, timestamp, body, target.secrets),
  }
  return { url: target.url, headers, body }
}

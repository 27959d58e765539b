import { createHmac } from 'node:crypto'

/**
 * The header `webhook-signature` of Standard Webhooks: a signature by each secret, of the very bytes that are sent.
 *
 * @param secrets each `whsec_` and base64
 */
export function signatureOf(id: string, timestamp: string, body: Buffer, secrets: readonly string[]): string {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
  })
  return signatures.join(' ')
}

const PREFIX = 'whsec_'

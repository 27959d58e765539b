import { randomUUID } from 'node:crypto'
import { noAnswerText } from '../outbound/no-answer.ts'
import type { OutboundPlan } from '../outbound/options.ts'
import { verdictOf } from '../outbound/verdict.ts'
import { webhookRequest } from '../outbound/webhook-request.ts'
import type { CalledEndpoint } from '../table/endpoint/call-endpoints.ts'

/** What came of a test event. */
export interface EndpointTest {
  /** Whether the status is one from 200 to 299. */
  readonly delivered: boolean
  /** Null: there was no answer. */
  readonly status: number | null
  /** Why there was no answer; null: there was one. */
  readonly error: string | null
  /** The first 1 KiB of the answer. */
  readonly text: string
  /** How long it took, in milliseconds. */
  readonly durationMs: number
}

/** Sends an event that says nothing, with an id that no message has. */
export async function testEndpoint(endpoint: CalledEndpoint, plan: OutboundPlan): Promise<EndpointTest> {
  const { Poster } = await import('../outbound/poster.ts')
  const { source, nowMs } = endpoint
  const event = { id: `${source}_test-${randomUUID()}`, type: 'webhook.test', at: new Date(nowMs), payload: '{}' }
  const beganMs = performance.now()
  const took = () => Math.round(performance.now() - beganMs)
  try {
    const request = webhookRequest(endpoint, event, nowMs)
    const answer = await new Poster(plan).post(request, new AbortController().signal)
    const { error, status } = verdictOf(answer, Date.now())
    return { delivered: error === null, status, error: null, text: answer.text, durationMs: took() }
  } catch (error) {
    return { delivered: false, status: null, error: noAnswerText(error), text: '', durationMs: took() }
  }
}

import type { Consumer, ConsumerInfo } from '@nats-io/jetstream'
import { pause } from '../basics/time/pause.ts'

/** How long the server keeps a request for a message. */
export const REQUEST_MS = 5_000

/**
 * Waits until the server has back what it gave to an earlier connection: otherwise it delivers later messages first. A connection that
 * was cut off may have asked for a message, which the server gives it although it is gone. Where other processes receive, there is
 * no order to keep, and it does not wait for theirs.
 */
export class Handover {
  readonly #consumer: Pick<Consumer, 'info'>
  readonly #ackMs: number
  readonly #requestsEndAtMs: number
  #endsAtMs: number

  /** @param ackWaitMs after which the server delivers again what has no ack */
  constructor(consumer: Pick<Consumer, 'info'>, info: ConsumerInfo, ackWaitMs: number) {
    const now = performance.now()
    this.#consumer = consumer
    this.#ackMs = ackWaitMs + MARGIN_MS
    this.#requestsEndAtMs = now + REQUEST_MS + MARGIN_MS
    this.#endsAtMs = info.num_waiting > 0 ? this.#requestsEndAtMs + this.#ackMs : now + this.#ackMs
    this.#look(info)
  }

  /** For how long at most. */
  get waitMs(): number {
    return Math.max(0, this.#endsAtMs - performance.now())
  }

  /** Waits until it is over, or the signal aborts. */
  async over(signal: AbortSignal): Promise<void> {
    while (this.waitMs > 0 && !signal.aborted) {
      await pause(Math.min(LOOK_MS, this.waitMs), signal)
      if (this.waitMs > 0 && !signal.aborted) this.#look(await this.#consumer.info())
    }
  }

  #look({ num_waiting: requests, num_ack_pending: unacked }: ConsumerInfo): void {
    const now = performance.now()
    // A request that is younger than this connection comes from another process.
    if (requests > 0 ? now > this.#requestsEndAtMs : unacked === 0) this.#endsAtMs = now
    // Nothing more goes to a connection that was cut off.
    else if (requests === 0) this.#endsAtMs = Math.min(this.#endsAtMs, now + this.#ackMs)
  }
}

/** The server looks for what has not been acked, and for requests that are over, a moment after their time is up. */
const MARGIN_MS = 250
const LOOK_MS = 500

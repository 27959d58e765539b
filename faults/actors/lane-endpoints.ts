import type pg from 'pg'
import type { Sluice } from '../../src/index.ts'
import { secretOf } from '../environment/endpoint-secret.ts'
import type { LoadPayload } from '../ledger.ts'

export interface LaneEndpointsOptions {
  readonly sluice: Sluice
  readonly queue: string
  /** What their names end with in a URL. */
  readonly host: string
  readonly lane: string
}

/** The endpoints of a lane, each made before its first event: an ordered one for each key, and one for events without a key. */
export class LaneEndpoints {
  readonly #options: LaneEndpointsOptions
  readonly #made = new Map<string, Promise<unknown>>()

  constructor(options: LaneEndpointsOptions) {
    this.#options = options
  }

  /** The id of the message. Undefined: the endpoint is deleted, so there is none. */
  async send(tx: pg.Client, payload: LoadPayload, orderingKey: string | undefined): Promise<string | undefined> {
    const { sluice, queue, lane } = this.#options
    const name = orderingKey ?? `${lane}.${OPEN}`
    if (!this.#made.has(name)) this.#made.set(name, this.#make(name, orderingKey !== undefined))
    await this.#made.get(name)
    const [sent] = await sluice.sendWebhook(tx, queue, { type: 'load', payload, owner: name })
    return sent?.id
  }

  #make(name: string, ordered: boolean): Promise<unknown> {
    const { sluice, queue, host } = this.#options
    return sluice.endpoints.set(queue, name, {
      url: `http://${name}.${host}/`,
      owner: name,
      ordered,
      secret: secretOf(name),
    })
  }
}

/** The last part of the name of a lane's endpoint without order. */
export const OPEN = 'open'

import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { LedgerWriter } from '../actors/ledger-writer.ts'
import { secretOf } from './endpoint-secret.ts'

/** What an endpoint does with a request in place of taking it. It may take it later. */
export type HookAnswer = (request: HookRequest) => unknown

export interface HookRequest {
  readonly path: string
  readonly response: ServerResponse
  readonly take: () => Promise<void>
}

/**
 * A server that is all endpoints, by the names of hosts. What an endpoint takes is booked as an effect: once for each
 * `webhook-id`, as every receiver must, and only with a signature by the secret that the endpoint has now.
 */
export class HookReceiver {
  readonly port: number
  /** Of the endpoints that do not simply take what they get. */
  readonly answers = new Map<string, HookAnswer>()
  readonly #server: Server
  readonly #ledger: LedgerWriter
  readonly #taken = new Map<string, Promise<unknown>>()
  readonly #rotations = new Map<string, number>()

  private constructor(server: Server, ledger: LedgerWriter) {
    this.#server = server
    this.#ledger = ledger
    this.port = (server.address() as AddressInfo).port
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#answer(request, response))
  }

  static async start(ledger: LedgerWriter): Promise<HookReceiver> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new HookReceiver(server, ledger)
  }

  /** Of an endpoint. */
  secretOf(endpoint: string): string {
    return secretOf(endpoint, this.#rotations.get(endpoint))
  }

  /** Gives an endpoint another secret, and returns it. */
  rotate(endpoint: string): string {
    this.#rotations.set(endpoint, (this.#rotations.get(endpoint) ?? 0) + 1)
    return this.secretOf(endpoint)
  }

  /** The senders must connect again. */
  closeConnections(): void {
    this.#server.closeAllConnections()
  }

  async stop(): Promise<void> {
    this.#server.close()
    this.closeConnections()
    await once(this.#server, 'close')
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined)
    // The names of endpoints have three parts.
    const endpoint = header(request, 'host').split('.').slice(0, 3).join('.')
    const body = await text(request).catch(() => undefined)
    // The sender is gone.
    if (body === undefined) return
    const take = () => this.#take(endpoint, request, body, response).catch(() => void response.destroy())
    const answer = this.answers.get(endpoint)
    if (answer === undefined) await take()
    else answer({ path: request.url ?? '', response, take })
  }

  async #take(endpoint: string, request: IncomingMessage, body: string, response: ServerResponse): Promise<void> {
    if (!this.#isSigned(endpoint, request, body)) {
      response.writeHead(401).end()
      return
    }
    const id = header(request, 'webhook-id')
    if (!this.#taken.has(id)) this.#taken.set(id, this.#ledger.write(BOOK, [id.split('_')[1]]))
    await this.#taken.get(id)
    response.writeHead(204).end()
  }

  #isSigned(endpoint: string, request: IncomingMessage, body: string): boolean {
    const key = Buffer.from(this.secretOf(endpoint).slice('whsec_'.length), 'base64')
    const signed = `${header(request, 'webhook-id')}.${header(request, 'webhook-timestamp')}.${body}`
    const signature = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
    return header(request, 'webhook-signature').split(' ').includes(signature)
  }
}

function header({ headers }: IncomingMessage, name: string): string {
  return String(headers[name] ?? '')
}

/** All that is known of an effect at a receiver is that it is there: its attempt is not. */
const BOOK = `
WITH begun AS (INSERT INTO ledger.started (message_id, worker, attempt, at) VALUES ($1::bigint, 'receiver', 1, now()))
INSERT INTO ledger.effect (message_id, worker, attempt, at) VALUES ($1::bigint, 'receiver', 1, now())`

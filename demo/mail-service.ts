import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { ShopDatabase } from './shop.ts'

const SLOW_MS = 10
/** One call in this many takes 20 times as long. */
const SLOWER_EVERY = 50
/** One call in this many is refused before anything is done. */
const BUSY_EVERY = 40
/** One call in this many does its work and answers with an error. */
const LATE_EVERY = 70

/**
 * The mail service of another company, as far as the shop can tell: it is slow, fails now and then, sometimes after it has
 * sent the mail, and takes an idempotency key. It writes down what it sends, for the audit.
 */
export class MailService {
  readonly #db: Kysely<ShopDatabase>
  readonly #server: Server
  readonly #keys = new Set<string>()
  #calls = 0

  private constructor(db: Kysely<ShopDatabase>) {
    this.#db = db
    this.#server = createServer(async (request, response) => {
      // Whoever has sent it may be dead by now.
      response.statusCode = await this.#answer(request).catch(() => 500)
      response.end()
    })
  }

  static async start(db: Kysely<ShopDatabase>): Promise<MailService> {
    const service = new MailService(db)
    service.#server.listen(0, '127.0.0.1')
    await once(service.#server, 'listening')
    return service
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #answer(request: IncomingMessage): Promise<number> {
    const call = ++this.#calls
    const key = String(request.headers['idempotency-key'])
    const mail = (await json(request)) as { readonly orderId: number; readonly customer: string }
    await sleep(call % SLOWER_EVERY === 0 ? SLOW_MS * 20 : SLOW_MS)
    if (call % BUSY_EVERY === 0) return 503
    await this.#send(key, mail)
    return call % LATE_EVERY === 0 ? 500 : 202
  }

  async #send(key: string, mail: { readonly orderId: number; readonly customer: string }): Promise<void> {
    if (this.#keys.has(key)) {
      const again = this.#db.updateTable('mail').set((of) => ({ asked: of('asked', '+', 1) }))
      await again.where('key', '=', key).execute()
      return
    }
    this.#keys.add(key)
    await this.#db
      .insertInto('mail')
      .values({ key, ...mail, asked: 1 })
      .execute()
  }
}

import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { wordsOf } from '../../basics/words-of.ts'
import type { QueueStatistics } from '../../index.ts'

/** The answer to a probe. */
export interface Health {
  readonly status: 'starting' | 'running' | 'draining' | 'failed'
  readonly connected: boolean
  readonly queues: Readonly<Record<string, QueueStatistics>>
}

/** `port` or `host:port`. */
export interface HealthAddress {
  readonly host: string | undefined
  readonly port: number
}

/**
 * Answers probes: `/healthz` with 200 unless a pipeline has failed, `/readyz` with 200 while it is connected and claims.
 * Otherwise 503. The body says why, in JSON.
 */
export class HealthServer implements AsyncDisposable {
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  /** @throws Error if the address is in use, or does not belong to this machine */
  static async listen({ host, port }: HealthAddress, read: () => Health): Promise<HealthServer> {
    const server = createServer((request, response) => {
      // Not as a URL: a client may send `//`, which is none.
      const [pathname] = (request.url ?? '').split('?', 1)
      const health = read()
      const isUp = pathname === '/readyz' ? health.status === 'running' && health.connected : health.status !== 'failed'
      const isKnown = pathname === '/healthz' || pathname === '/readyz'
      response.statusCode = !isKnown ? 404 : isUp ? 200 : 503
      response.setHeader('content-type', 'application/json').setHeader('cache-control', 'no-store')
      response.end(isKnown ? `${JSON.stringify(health)}\n` : undefined)
    })
    server.listen(port, host)
    await once(server, 'listening').catch((error: unknown) => {
      const where = `${host ?? ''}:${port}`.replace(/^:/, '')
      throw new Error(
        `--health ${where}: cannot listen: ${wordsOf(error)}. Give another port, or end the process that uses it`,
        {
          cause: error,
        },
      )
    })
    return new HealthServer(server)
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

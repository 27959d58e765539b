import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { wordsOf } from '../../basics/errors/words-of.ts'
import type { Health, InboxStatistics, QueueStatistics } from '../../index.ts'

/** What the probes answer. */
export interface WorkHealth extends Health {
  readonly queues: Readonly<Record<string, QueueStatistics>>
  /** By the queue into which they enqueue. */
  readonly inboxes: Readonly<Record<string, InboxStatistics>>
}

/** What the server tells of the process. */
export interface Vitals {
  health(): WorkHealth
  /** The metrics as Prometheus reads them. */
  metrics(): string
}

/** `port` or `host:port`. */
export interface HealthAddress {
  readonly host: string | undefined
  readonly port: number
}

/**
 * Answers probes: `/livez` and `/healthz` with 200 unless a pipeline has failed, `/readyz` with 200 while it is connected
 * and claims. Otherwise 503. The body says why, in JSON. `/metrics` is for Prometheus.
 */
export class HealthServer implements AsyncDisposable {
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  /** @throws Error if the address is in use, or does not belong to this machine */
  static async listen({ host, port }: HealthAddress, vitals: Vitals): Promise<HealthServer> {
    const server = createServer((request, response) => answer(request, response, vitals))
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

function answer(request: IncomingMessage, response: ServerResponse, vitals: Vitals): void {
  // Not as a URL: a client may send `//`, which is none.
  const [path] = (request.url ?? '').split('?', 1)
  response.setHeader('cache-control', 'no-store')
  if (path === '/livez' || path === '/healthz' || path === '/readyz') {
    const health = vitals.health()
    response.statusCode = (path === '/readyz' ? health.ready : health.live) ? 200 : 503
    response.setHeader('content-type', 'application/json').end(`${JSON.stringify(health)}\n`)
  } else if (path === '/metrics') {
    response.setHeader('content-type', PROMETHEUS_TEXT).end(vitals.metrics())
  } else {
    response.writeHead(404).end()
  }
}

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8'

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { OutboundOptions } from '../../../src/outbound/options.ts'

/** A request that a receiver has got. */
export interface ReceivedWebhook {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** As text. */
  readonly body: string
  /** The port of the client: requests with the same one came by one connection. */
  readonly clientPort: number
}

/** Answers a request. */
export type Answering = (request: ReceivedWebhook, response: ServerResponse) => void

/** A server on this machine that gets webhooks, until the test ends. At first it answers 204. */
export interface Receiver {
  readonly url: string
  readonly port: number
  /** All requests, in the order of their arrival. */
  readonly received: readonly ReceivedWebhook[]
  answer: Answering
  /** What lets requests through the wall to it. */
  readonly reach: Required<Pick<OutboundOptions, 'allowHttp' | 'ports' | 'networks'>>
}

export async function startReceiver(): Promise<Receiver> {
  const received: ReceivedWebhook[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers, socket } = request
      const body = Buffer.concat(chunks).toString()
      const one = { method, path: url, headers, body, clientPort: socket.remotePort ?? 0 }
      received.push(one)
      receiver.answer(one, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    answer: answering(204),
    reach: { allowHttp: true, ports: [port], networks: ['127.0.0.0/8'] },
  }
  return receiver
}

/** Answers each request alike. */
export function answering(status: number, headers: Readonly<Record<string, string>> = {}, body = ''): Answering {
  return (_, response) => response.writeHead(status, headers).end(body)
}

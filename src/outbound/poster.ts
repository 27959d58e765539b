import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import { startTimer } from '../basics/time/start-timer.ts'
import type { OutboundPlan } from './options.ts'
import { resolveBy } from './resolve.ts'
import { type Resolve, Wall } from './wall.ts'

/** A request to a URL that somebody else has chosen. */
export interface OutboundRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What a server has answered. */
export interface Answer {
  readonly status: number
  /** The header `Retry-After`. */
  readonly retryAfter: string | undefined
  /** The first 1 KiB. */
  readonly text: string
}

/** Sends requests, within the wall and within limits of time and size. */
export class Poster {
  readonly #plan: OutboundPlan
  readonly #wall: Wall
  /** An idle connection does not keep the process running. */
  readonly #agents: Readonly<Record<'http' | 'https', http.Agent>>

  constructor(plan: OutboundPlan, resolve: Resolve = resolveBy()) {
    this.#plan = plan
    const { agents } = plan
    this.#agents = { http: agents.http ?? new http.Agent(AGENT), https: agents.https ?? new https.Agent(AGENT) }
    this.#wall = new Wall(plan, resolve)
  }

  /**
   * Sends a request and returns the answer. Redirects are answers.
   *
   * @throws an error that says why there is no answer
   */
  async post(request: OutboundRequest, signal: AbortSignal): Promise<Answer> {
    const url = new URL(request.url)
    const refusal = this.#wall.refusalOf(url)
    if (refusal !== undefined) throw new Error(refusal)
    const late = new AbortController()
    const timer = startTimer(() => late.abort(), this.#plan.timeoutMs)
    try {
      const response = await this.#exchange(url, request, AbortSignal.any([signal, late.signal]))
      const retryAfter = response.headers['retry-after']
      return { status: response.statusCode ?? 0, retryAfter, text: await startOf(response) }
    } catch (error) {
      if (late.signal.aborted) throw new Error(`no answer within ${this.#plan.timeoutMs} ms`)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  async #exchange(
    url: URL,
    { headers, body }: OutboundRequest,
    signal: AbortSignal,
    again = false,
  ): Promise<http.IncomingMessage> {
    const answered = Promise.withResolvers<http.IncomingMessage>()
    const isPlain = url.protocol === 'http:'
    const agent = this.#agents[isPlain ? 'http' : 'https']
    const options = { method: 'POST', headers, agent, lookup: this.#wall.lookup, signal }
    const request = (isPlain ? http : https).request(url, options, (response) => {
      // A server that reads no more of the body would keep the connection.
      response.once('end', () => request.writableFinished || request.destroy())
      answered.resolve(response)
    })
    request.on('error', answered.reject)
    // Without an error: by `101 Switching Protocols`, after which Node has no more to say of the request.
    request.once('close', () => answered.reject(new Error('the connection was closed without an answer')))
    request.once('socket', (socket) => limitConnecting(request, socket, isPlain ? 'connect' : 'secureConnect'))
    request.end(body)
    try {
      return await answered.promise
    } catch (error) {
      // The server has closed an idle connection at the moment at which it was to be used.
      if (again || !request.reusedSocket || !isReset(error)) throw error
      return this.#exchange(url, { url: url.href, headers, body }, signal, true)
    }
  }
}

/** Ends the request if it has no connection in time. The name is resolved in this time too. */
function limitConnecting(request: http.ClientRequest, socket: Socket, connected: 'connect' | 'secureConnect'): void {
  if (!socket.connecting) return
  const timer = startTimer(() => request.destroy(new Error(`no connection within ${CONNECT_MS} ms`)), CONNECT_MS)
  const stop = () => clearTimeout(timer)
  socket.once(connected, stop)
  socket.once('close', stop)
}

/** Reads an answer, so that its connection can be used again, unless it is too large. The status counts however it ends. */
async function startOf(response: http.IncomingMessage): Promise<string> {
  const kept: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (size < KEPT_BYTES) kept.push(chunk)
      size += chunk.byteLength
      // To leave the loop closes the connection.
      if (size > MOST_BYTES) break
    }
  } catch {
    // Cut, or longer than the request may take.
  }
  return new TextDecoder().decode(Buffer.concat(kept).subarray(0, KEPT_BYTES))
}

function isReset(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNRESET'
}

const AGENT = { keepAlive: true, maxFreeSockets: 50, timeout: 4_000 } as const
const CONNECT_MS = 5_000
const KEPT_BYTES = 1_024
const MOST_BYTES = 65_536

import type { ChannelModel, SocketOptions } from 'amqplib'
import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { NOT_IN_TIME } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { notConnected } from '../relay/any-server.ts'
import { type Connected, connectToAny } from './connect-to-any.ts'
import { withRemedy } from './remedy.ts'

/** A connection, and what destroys it. */
export interface Session {
  readonly connection: ChannelModel
  /** Its abort destroys the connection, whatever state it is in. */
  readonly life: AbortController
}

/**
 * Connects, and makes of the connection what it is for. It is destroyed if that fails, or the signal aborts meanwhile.
 *
 * @throws why there is no connection, or what `make` throws; OPTION_INVALID if that is missing, or not permitted
 */
export async function openSession<T>(
  servers: readonly string[],
  options: SocketOptions | undefined,
  signal: AbortSignal,
  make: (session: Session) => Promise<T>,
): Promise<T> {
  const life = new AbortController()
  const abort = () => life.abort()
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  try {
    const connected = await connectToAny(servers, options ?? {}, life.signal)
    return await Promise.race([lossOf(connected, signal), make({ connection: connected.connection, life })])
  } catch (error) {
    abort()
    throw withRemedy(error)
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/**
 * Rejects when the connection ends, with the reason and the server. What waits for an answer hears only that there is none, and what
 * waits for the end of a channel hears nothing.
 */
function lossOf({ connection, address }: Connected, signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  const lost = (error?: unknown) => {
    const reason = signal.aborted ? NOT_IN_TIME : withRemedy(error ?? new Error('connection closed'))
    reject(notConnected(new Map([[address, reason]])))
  }
  connection.once('error', lost)
  connection.once('close', lost)
  // When the session is open, others listen.
  ignoreRejection(promise)
  return promise
}

/** Says goodbye, and destroys a connection that gets no answer. */
export async function closeSession({ connection, life }: Session): Promise<void> {
  const closed = connection.close().catch(() => undefined)
  await untilAborted(closed, AbortSignal.timeout(GOODBYE_MS))
  life.abort()
}

/** How long the server may take to say goodbye. */
const GOODBYE_MS = 500

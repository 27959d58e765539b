import pg from 'pg'
import { noteLogin } from '../basics/errors/login-of.ts'
import { queryAsText } from '../session/own-parsers.ts'
import { Session } from '../session/session.ts'
import { nameOf } from '../session/statement-names.ts'
import type { Execute } from '../table/statement.ts'
import { close } from './close.ts'
import { unreachable } from './unreachable.ts'

/**
 * Opens a connection of our own. Statements are pipelined: sent without waiting for the answers of earlier ones.
 *
 * @param signal gives up the attempt.
 * @throws SluiceError UNREACHABLE, with the driver's error as `cause`.
 */
export async function openClient(config: pg.ClientConfig, signal?: AbortSignal): Promise<pg.Client> {
  if (signal?.aborted) throw unreachable(givenUp())
  const client = createClient(config)
  // A lost connection would end the process. Users of the client see the failed statement, or 'end'.
  client.on('error', () => undefined)
  const giveUp = () => client.connection.stream.destroy(givenUp())
  signal?.addEventListener('abort', giveUp)
  try {
    await client.connect()
    return client
  } catch (error) {
    void closeClient(client)
    throw unreachable(error)
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

function givenUp(): Error {
  return new Error('the attempt was given up')
}

/**
 * @throws SluiceError UNREACHABLE for a connection string that the driver cannot read, or the file of a certificate
 * that does not exist.
 */
function createClient(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client({
      pipeline: true,
      keepAlive: true,
      // The operating system's default is two hours: a dead peer would keep its locks that long.
      keepAliveInitialDelayMillis: 10_000,
      ...config,
    })
  } catch (error) {
    throw unreachable(error)
  }
}

/** Ends a connection of our own, even if the other side does not answer. */
export async function closeClient(client: pg.Client): Promise<void> {
  await close(
    () => client.end(),
    () => client.connection.stream.destroy(),
  )
}

/**
 * Runs our statements on a client: prepared by name, so parsed once per connection, if the connection may have names.
 *
 * @param connection the driver's client, if the given one is a wrapper of it.
 */
export function executeOn(client: Pick<pg.ClientBase, 'query'>, connection: object = client): Execute {
  const session = Session.of(connection)
  return async (statement, params) => {
    const query = { text: statement.text, values: [...params] }
    const { names } = session
    try {
      if (!names) return (await queryAsText(client, query, connection)).rows
      return (await queryAsText(client, { name: nameOf(statement), ...query }, connection)).rows
    } catch (error) {
      if (names) session.failed(error)
      noteLogin(error, connection)
      throw error
    }
  }
}

import type pg from 'pg'
import type { Execute } from '../table/statement.ts'
import { isShared } from './is-shared.ts'
import { closeClient, executeOn, openClient } from './open-client.ts'
import { unreachable } from './unreachable.ts'

/**
 * Runs statements on a connection of their own, each by itself and outside of a transaction.
 *
 * @param signal cuts the connection.
 * @throws SluiceError UNREACHABLE
 */
export function inSession<T>(
  config: pg.ClientConfig,
  work: (execute: Execute) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  return onClient(config, (client) => work(executeOn(client)), signal)
}

/** Where DDL is run outside of transactions. */
export interface DirectAddress {
  readonly connection: pg.ClientConfig
  /** The user has given it as an address that leads to the server itself. */
  readonly vouched: boolean
}

/** The same, and says whether the session is shared with others: see {@link isShared}. */
export function inKnownSession<T>(
  { connection, vouched }: DirectAddress,
  work: (execute: Execute, shared: boolean) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const another = () => openClient({ application_name: APPLICATION, ...connection }, signal)
  return onClient(
    connection,
    async (client) => work(executeOn(client), await isShared(client, vouched, another)),
    signal,
  )
}

async function onClient<T>(
  config: pg.ClientConfig,
  work: (client: pg.Client) => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const client = await openClient({ application_name: APPLICATION, ...config }, signal)
  const cut = () => client.connection.stream.destroy(new Error('the maintenance was ended'))
  signal?.addEventListener('abort', cut)
  try {
    return await work(client)
  } catch (error) {
    throw client.connection.stream.destroyed ? unreachable(error) : error
  } finally {
    signal?.removeEventListener('abort', cut)
    await closeClient(client)
  }
}

const APPLICATION = 'sluice maintenance'

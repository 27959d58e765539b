import type pg from 'pg'
import type { Execute } from '../table/statement.ts'
import { closeClient, executeOn, openClient } from './open-client.ts'
import { unreachable } from './unreachable.ts'

/**
 * Runs statements on a connection of their own, each by itself and outside of a transaction.
 *
 * @param signal cuts the connection.
 * @throws SluiceError UNREACHABLE
 */
export async function inSession<T>(
  config: pg.ClientConfig,
  work: (execute: Execute) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const client = await openClient({ application_name: 'sluice maintenance', ...config }, signal)
  const cut = () => client.connection.stream.destroy(new Error('the maintenance was ended'))
  signal?.addEventListener('abort', cut)
  try {
    return await work(executeOn(client))
  } catch (error) {
    throw client.connection.stream.destroyed ? unreachable(error) : error
  } finally {
    signal?.removeEventListener('abort', cut)
    await closeClient(client)
  }
}

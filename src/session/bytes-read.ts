import type pg from 'pg'

/**
 * How much a connection has received, to be compared with what it had before. A stream of somebody else's may not tell.
 */
export function bytesReadOf(client: Pick<pg.Client, 'connection'>): unknown {
  return Reflect.get(client.connection.stream, 'bytesRead')
}

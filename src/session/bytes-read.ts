import type pg from 'pg'

/**
 * How many bytes a connection has received, to compare with an earlier answer. A stream of the application's own may
 * not count them.
 */
export function bytesReadOf(client: Pick<pg.Client, 'connection'>): unknown {
  return Reflect.get(client.connection.stream, 'bytesRead')
}

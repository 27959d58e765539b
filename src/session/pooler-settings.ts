import pg from 'pg'
import { readPoolerSettings } from '../table/session.ts'
import type { Execute } from '../table/statement.ts'

/**
 * The commands that set again what a pooler has set on the server session for this connection, or undefined if the
 * session is the connection's own. RESET ALL takes it away together with all else, and neither the pooler nor the
 * driver would know: a change and its return within one message are told to nobody.
 */
export function poolerSettingsOf(client: object): readonly string[] | undefined {
  return OF_CLIENT.get(client)
}

/**
 * Learns them from a connection that is behind a pooler. Those which the server has by itself are not among them, today
 * or later: to these RESET ALL returns.
 */
export async function learnPoolerSettings(client: pg.ClientBase): Promise<void> {
  OF_CLIENT.set(client, [])
  const execute: Execute = async ({ text }) => (await client.query<Record<string, unknown>>(text)).rows
  const settings = await readPoolerSettings(execute)
  OF_CLIENT.set(
    client,
    settings.map(({ name, value }) => `SET ${name} = ${pg.escapeLiteral(value)}`),
  )
}

const OF_CLIENT = new WeakMap<object, readonly string[]>()

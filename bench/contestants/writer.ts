import pg from 'pg'
import type { Payload, Writer } from '../contestant.ts'

/** How a contestant enqueues through a client that is in a transaction. */
export interface Statements {
  readonly one: (client: pg.Client, message: Payload) => Promise<unknown>
  readonly many?: (client: pg.Client, messages: readonly Payload[]) => Promise<unknown>
}

/** The application's side, the same for all: a plain `pg` client, and every statement awaited before the next. */
export async function openWriter(url: string, { one, many }: Statements): Promise<Writer> {
  const client = new pg.Client(url)
  await client.connect()
  const inTransaction = async (write: () => Promise<unknown>, beforeCommit?: () => void) => {
    await client.query('BEGIN')
    await write()
    beforeCommit?.()
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error(`COMMIT answered by ${command}`)
  }
  return {
    enqueue: (message, beforeCommit) => inTransaction(() => one(client, message), beforeCommit),
    enqueueMany: async (messages) => {
      if (many === undefined) throw new Error('It cannot enqueue many')
      await inTransaction(() => many(client, messages))
    },
    close: () => client.end(),
  }
}

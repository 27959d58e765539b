import { expect } from 'vitest'
import type { ReceivedMessage, ReceiverConnection } from '../../src/inbox/receiver.ts'
import type { Receiver, Sluice } from '../../src/index.ts'
import type { EventLog } from './event-log.ts'
import { payloadsOf } from './rows/rows.ts'
import type { TestDatabase } from './servers/database.ts'
import { waitFor } from './wait.ts'

/** Waits of a breaker that are short for a test, and long for a broker. */
export const QUICK = { delay: '10ms', maxDelay: '50ms' } as const

/** A message to publish, with an id and its number as the body. */
export const letter = (n: number) => ({ id: `m-${n}`, body: String(n), headers: {} })

export const numbers = (count: number, first = 0) => Array.from({ length: count }, (_, n) => first + n)

/** Aborts what does not end. */
export const soon = () => AbortSignal.timeout(60_000)

export const idsOf = (messages: readonly ReceivedMessage[]) => messages.map(({ id }) => id)

/** Receives so many messages, and acks none. */
export async function take(connection: ReceiverConnection, count: number): Promise<readonly ReceivedMessage[]> {
  const taken: ReceivedMessage[] = []
  while (taken.length < count) {
    const more = await connection.receive(count - taken.length, soon())
    if (more.length === 0) throw new Error(`expected ${count} messages, received ${taken.length}`)
    taken.push(...more)
  }
  return taken
}

/** What a test of an inbox has. */
interface InboxTest {
  readonly database: TestDatabase
  readonly sluice: Sluice
  readonly queue: string
  readonly log: EventLog
  readonly from: Receiver
}

/** Kills a server that has {@link letter}s 0 to 599, and starts it again, while an inbox receives them. */
export async function expectToOutliveAKill(
  { database, sluice, queue, log, from }: InboxTest,
  server: { kill(): Promise<void>; run(): Promise<void> },
): Promise<void> {
  const running = sluice.inbox(queue, { from, batchSize: 20, breaker: QUICK }).start()
  await waitFor(() => log.of('inbox.stored').length >= 3, { what: 'some batches' })
  await server.kill()
  await log.first('inbox.unavailable')
  await server.run()
  await waitFor(async () => (await payloadsOf(database, queue)).length >= 600, { what: 'all messages' })
  await running.drain()
  expect(await payloadsOf(database, queue)).toEqual(numbers(600))
}

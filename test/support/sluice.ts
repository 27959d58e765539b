import { onTestFinished } from 'vitest'
import type { SluiceOptions } from '../../src/config.ts'
import type { EnqueueOptions } from '../../src/message-options.ts'
import type { QueueDefinitions } from '../../src/queues.ts'
import { createSluice, type Sluice } from '../../src/sluice.ts'
import type { StreamDefinitions } from '../../src/streams.ts'
import { EventLog } from './event-log.ts'
import type { TestDatabase } from './servers/database.ts'
import { test as base } from './test.ts'

let queues = 0

/** `test` with a queue of the test's own, a Sluice that stops with the test, and what that has reported. */
export const test = base
  .extend('queue', () => `q.${++queues}`)
  .extend('sluice', ({ database }) => startTestSluice(database))
  .extend('log', ({ sluice }) => new EventLog(sluice.events))

/** On a busy machine a server can take longer to answer a new connection than the five seconds that are the default. */
const CONNECT_TIMEOUT_MS = 30_000

/** A Sluice on the test's database, without a log. At the end of the test handlers that still run are aborted. */
export function startTestSluice<
  const Definitions extends QueueDefinitions | undefined = undefined,
  const Streams extends StreamDefinitions | undefined = undefined,
>(
  database: Pick<TestDatabase, 'url'>,
  options: Partial<SluiceOptions<Definitions, Streams>> = {},
): Sluice<Definitions, Streams> {
  const sluice = createSluice<Definitions, Streams>({
    connection: database.url,
    connectTimeout: CONNECT_TIMEOUT_MS,
    log: false,
    ...options,
  })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  return sluice
}

/** Enqueues payloads in one transaction, in order, all with the same options, and returns their ids. */
export function put(
  sluice: Sluice,
  queue: string,
  payloads: readonly unknown[],
  options: EnqueueOptions = {},
): Promise<string[]> {
  return sluice.enqueueMany(
    sluice.ownTransaction,
    queue,
    payloads.map((payload) => ({ payload, ...options })),
  )
}

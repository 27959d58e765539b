import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { FROM_SOURCE } from '../../support/processes/from-source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

const FOLDER = join(import.meta.dirname, '../../../examples')

const LEASED_OUTPUT = ['60 charges, some of them asked for again', '60 receipts of 60 orders']

/** What each program prints. */
const OUTPUTS: Readonly<Record<string, readonly string[]>> = {
  '01-enqueue-in-your-transaction.ts': [
    'pg, committed: the message is ready',
    'Kysely, committed: the message is ready',
    'Kysely, rolled back: there is no message',
    'SluiceError: tx: expected an open transaction, received a pg Pool. ' +
      "Use a client of pool.connect() after client.query('BEGIN'), or pass sluice.ownTransaction",
  ],
  '02-consume.ts': [
    'try 1 failed: Error: The mail server is busy',
    'dead: not an address',
    'drained: true',
    'sent: ada@example.com, asleep@example.com, flaky@example.com',
  ],
  '03-ordered-by-customer.ts': ['Ada: 1, 2 failed, 2 failed, 2, 3', 'Edsger: 1, 2, 3', 'Grace: 1, 2, 3'],
  '04-routes.ts': [
    'ship order 1 (order.paid)',
    'record order 1 (order.paid)',
    'refund order 2 (order.eu.refunded)',
    'record order 2 (order.eu.refunded)',
    '1 ack',
    '2 ack',
    '3 deadLetter no route matches the type "invoice.sent"',
  ],
  '05-rxjs-deliveries.ts': [
    '1 try 1: ack',
    '2 try 1: ack',
    '3 try 1: Error: 3 is too many',
    '3 try 2: ack',
    'groups of 5 and 5',
    'left the loop at 4',
  ],
  '06-drizzle-in-a-handler.ts': [
    'sale: ack',
    'sale: failed 1 of 1 attempts: Error: Not enough: -1',
    'invoices: 1',
    'left: 1',
  ],
  '07-prisma-in-a-handler.ts': ['note: ack', 'note: deadLetter', 'in the table: kept'],
  '08-testing.ts': [
    'enqueuedIn: one message, due in a minute',
    'deliver: a dead letter',
    'advance and runDue: a signup after a minute, then its letter',
  ],
  '09-typed-queues-with-zod.ts': [
    'ada@example.com 2026 free',
    'payload: expected what the schema of queue example.typed accepts, received an object. email: Invalid email address',
    'queue: expected one of the queues defined (example.typed, example.audit), received "example.typd". Did you mean "example.typed"?',
  ],
  '10-leased-http.ts': LEASED_OUTPUT,
  '11-claims.ts': [
    'run 1: ada@example.com, attempt 1',
    'run 1: busy@example.com, attempt 1',
    'run 1: nobody, attempt 1',
    'run 2: grace@example.com, attempt 1',
    'run 2: edsger@example.com, attempt 1',
    'run 2: busy@example.com, attempt 2',
    'run 3: nothing to do',
    'settled elsewhere: 1, refused: gone',
  ],
  '12-http.ts': [
    '201 enqueued 2',
    '403 Forbidden',
    '201 claimed vase, lamp',
    'claimed, free, total: 2 0 2',
    '200 settled 2 refused 0',
    '404 CLAIM_UNKNOWN',
  ],
  '13-queue-settings.ts': [
    'failed, again in 100 ms',
    'failed 2 of 2 attempts',
    'paused by ada: the mail provider is down',
    'message to grace: ready',
    'resumed',
    'sent to grace',
    'max attempts 2, set by the database user',
  ],
  '14-dedupe.ts': [
    'first click: added, ready',
    'second click: updated, ready',
    'change 3: requeued, ready',
    'change 4: updated, ready',
    'change 5: updated, ready',
    'status: in_flight, and one more after it',
    'written: [{"version":2},{"version":5}]',
    'mail: added, ready',
    'mail again: duplicate, completed',
    'many: added, added, duplicate',
  ],
  '15-cancel.ts': [
    'change: changed, it was scheduled',
    'reschedule: changed',
    'cancel: cancelled, it was scheduled',
    'cancel again: unknown',
    'cancel in flight: cancelled',
    'the handler: LEASE_LOST',
    'claim: nothing',
    'to clear: 3',
    'cleared: 3',
  ],
  '16-history.ts': [
    '{"amount":10}: attempt 1 by worker-1',
    '{"amount":20}: attempt 2 by worker-1, after "Error: the bank is busy"',
    'dead letters removed: 1, finished: true',
  ],
  '17-schedules.ts': [
    'created, unchanged',
    'each occurrence once',
    'on demand: true, paused: seen enough',
    'three nights: 2 days between the first and the last',
  ],
  '18-work.ts': ['a letter to Ada, try 1', 'a letter to Grace, try 2', 'exit code 0, 2 members'],
  '19-limits.ts': ['pages: 8, in flight at a time: 2', 'the last page of bolt is before the last of acme: true'],
  '20-projection.ts': [
    'ada: 50, grace: 5',
    'receipts of ada in order: ada 20, ada 30',
    'a new reader sees all of it: 20 5 30',
  ],
  '21-audit-log.ts': [
    'acme: free by ada',
    'acme: pro by grace',
    'from the end: 0',
    'moved back over 3: ada 2, grace 1',
  ],
  '22-worker-control.ts': [
    'attempt 1 failed: The bank is down',
    'paused: true',
    'more than 10 messages wait',
    '20 charged, 1 retried, 5 at a time',
  ],
  '23-stream-reads.ts': [
    '1: 21 on the roof',
    '3: 35 on the roof',
    'redriven: 1',
    'again: cellar',
    'handled again: 1',
    'roof, cellar, roof',
  ],
}

/** What each is given. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  '18-work.ts': [`${process.execPath} ${join(FOLDER, '../src/cli/main.ts')}`],
}

describe('examples', () => {
  test('are all run here', () => {
    expect(readdirSync(FOLDER).filter((file) => file.endsWith('.ts'))).toEqual(Object.keys(OUTPUTS))
  })

  // They mostly wait, so they run side by side. In one database they would find each other's messages and workers.
  test.concurrent.for(Object.entries(OUTPUTS))('%s', async ([file, output]) => {
    await using database = await createTestDatabase()
    expect(await linesOf(database, file)).toEqual(output)
    const left = await database.sql(
      `SELECT queue FROM sluice.queues WHERE ready + scheduled + retrying + in_flight > 0`,
    )
    expect(left).toEqual([])
  })
})

test('the leased example, killed between a charge and its receipt, charges once for each order when it is run again', async ({
  database,
}) => {
  const env = { ...process.env, ...FROM_SOURCE, DATABASE_URL: database.url }
  await database.sql('CREATE TABLE example_receipt (order_id int, receipt text)')
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN; LOCK TABLE example_receipt IN SHARE MODE')
  const first = spawn(process.execPath, [join(FOLDER, '10-leased-http.ts')], { env, stdio: 'ignore' })
  const ended = once(first, 'exit')
  const hasCharged = async () => (await database.sql('SELECT FROM example_charge').catch(() => [])).length > 0
  await waitFor(hasCharged, { what: 'the first charge' }).finally(() => first.kill('SIGKILL'))
  expect(await ended).toEqual([null, 'SIGKILL'])
  await client.query('COMMIT')

  expect(await linesOf(database, '10-leased-http.ts')).toEqual(LEASED_OUTPUT)
})

/** What an example prints. */
async function linesOf(database: TestDatabase, file: string): Promise<readonly string[]> {
  const env = { ...process.env, ...FROM_SOURCE, DATABASE_URL: database.url }
  const { stdout } = await promisify(execFile)(process.execPath, [join(FOLDER, file), ...(ARGUMENTS[file] ?? [])], {
    env,
    timeout: 200_000,
  })
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.trimEnd())
}

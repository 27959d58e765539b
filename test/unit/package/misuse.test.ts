import pg from 'pg'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import {
  createSluice,
  deadLetter,
  defineWorker,
  handleDeliveries,
  migrate,
  retryLater,
  routes,
  type SluiceOptions,
  snooze,
} from '../../../src/index.ts'
import { deliver, runDue } from '../../../src/testing.ts'
import { refusalOf } from '../../support/refusal.ts'

const connection = 'postgres://localhost/nowhere'

test.for([
  [new pg.Pool(), 'a pg Pool. Sluice makes its own connections: give it what the Pool was given'],
  [undefined, 'undefined'],
  [createSluice({ connection }), 'a Sluice'],
  [{ url: connection }, '"url". Did you mean connectionString?'],
  [{ connection }, 'a text. Did you mean connectionString, or to give that alone?'],
  [{ connection: { host: 'db' } }, 'an object. Did you mean connectionString, or to give that alone?'],
] as const)('migrate refuses %o as its connection', async ([given, received]) => {
  await expect(migrate(given as never)).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining(`received ${received}`),
  })
})

test('enqueue says that the transaction is missing where a queue was given first', async () => {
  const sluice = createSluice({ connection })
  await expect(sluice.enqueue('mail' as never, { n: 1 } as never, undefined)).rejects.toMatchObject({
    code: 'EXECUTOR_UNKNOWN',
    message:
      'tx: expected an open transaction as the first argument, received "mail". As in enqueue(tx, queue, payload)',
  })
})

describe('createSluice refuses at once', () => {
  test.for([
    ['a client', new pg.Client(), 'a Client'],
    ['a URL', new URL(connection), 'a URL'],
    ['another database', 'mysql://me:secret@db/app', 'another text'],
    ['no URL', 'notaurl', 'another text'],
    ['keywords as libpq takes them', 'host=db password=secret', 'another text'],
    ['an empty text', '', '""'],
    ['nothing', undefined, 'undefined'],
    ['a list', [connection], 'an array of 1'],
    ['a Sluice', createSluice({ connection }), 'a Sluice'],
    ['a promise of options', Promise.resolve({ host: 'db' }), 'a Promise'],
  ] as const)('%s as its connection', ([, given, received]) => {
    const wanted = "a string that begins with 'postgres://', or an object of options as pg.Client takes it"
    for (const what of ['connection', 'directConnection']) {
      if (what === 'directConnection' && given === undefined) continue
      expect(refusalOf(() => createSluice({ connection, [what]: given } as never))).toBe(
        `OPTION_INVALID: ${what}: expected ${wanted}, received ${received}. For example process.env.DATABASE_URL`,
      )
    }
  })

  test.for([
    [{ url: connection }, '"url". Did you mean connectionString?'],
    [{ connectionUrl: connection }, '"connectionUrl". Did you mean connectionString?'],
    [{ uri: connection }, '"uri". Did you mean connectionString?'],
    [{ DATABASE_URL: connection }, '"DATABASE_URL". Did you mean connectionString?'],
    [{ host: 'db', username: 'me' }, '"username". Did you mean user?'],
    [{ dbname: 'app' }, '"dbname". Did you mean database?'],
    [{ hots: 'db' }, '"hots". Did you mean host?'],
    [{ zebra: 1 }, '"zebra". For example process.env.DATABASE_URL'],
  ] as const)('%o as its connection, which would be the default database', ([given, received]) => {
    for (const what of ['connection', 'directConnection']) {
      expect(refusalOf(() => createSluice({ connection, [what]: given } as never))).toBe(
        `OPTION_INVALID: ${what}: expected an object of options as pg.Client takes it, received ${received}`,
      )
    }
  })

  test.for([
    { schema: {} },
    { schema: null },
    { schema: () => true },
    { schema: { '~standard': {} } },
    { schema: 'email' },
  ])('%o as the schema of a queue', (definition) => {
    expect(refusalOf(() => createSluice({ connection, queues: { q: definition } } as never))).toMatch(
      /^OPTION_INVALID: queues\.q\.schema: expected a Standard Schema, received /,
    )
  })

  test.for([null, [], 'q'])('%o as its queues', (queues) => {
    expect(refusalOf(() => createSluice({ connection, queues } as never))).toMatch(/^OPTION_INVALID: queues: /)
  })

  test.for<SluiceOptions['connection']>([
    'postgresql://db/app',
    'POSTGRES://db/app',
    '/var/run/postgresql app',
    'socket:/var/run/postgresql?db=app',
    {},
    { host: 'db', password: async () => 'secret' },
    {
      host: 'db',
      ssl: { rejectUnauthorized: false },
      sslnegotiation: 'direct',
      max: 5,
      idleTimeoutMillis: 1_000,
    } as object,
    new (class {
      get host() {
        return 'db'
      }
    })(),
  ])('and not %o', (given) => {
    expect(() => createSluice({ connection: given, queues: { q: { schema: z.string() }, r: {} } })).not.toThrow()
  })
})

describe('says what to do', () => {
  const sluice = createSluice({ connection })
  const tx = new pg.Client()
  const defined = createSluice({ connection, queues: { emails: {}, orders: {} } })
  test.for<[string, () => unknown, string]>([
    ['a Pool', () => createSluice({ connection: new pg.Pool() as never }), 'received a pg Pool. Sluice makes its own'],
    [
      'lease without its mode',
      () => sluice.pipeline('q', { lease: '1m' } as never),
      `pipeline("q").lease is not an option of transactional mode. Add mode: 'leased'`,
    ],
    [
      'the rate of a pipeline',
      () => sluice.pipeline('q', { mode: 'leased', rate: { limit: 1 } } as never),
      'received "rate". It is a setting of the queue: operate.queues.settings.set(queue, { rate })',
    ],
    [
      'handler of a worker',
      () => defineWorker({ q: { handler: () => undefined } } as never),
      `the worker's "q": expected handle or handleBatch, received "handler". Did you mean handle or handleBatch?`,
    ],
    [
      'handle and handleBatch',
      () => defineWorker({ q: { handle: () => undefined, handleBatch: () => undefined } } as never),
      `the worker's "q": expected either handle or handleBatch, received both`,
    ],
    [
      'retry: 3',
      () => sluice.pipeline('q', { retry: 3 } as never),
      `pipeline("q").retry: expected an object with a kind, or a function, received 3. As in { kind: 'fixed', delay: '5s' }. How often to try is maxAttempts`,
    ],
    [
      "a policy's name as retry",
      () => sluice.pipeline('q', { retry: 'payment' } as never),
      `pipeline("q").retry: expected an object with a kind, or a function, received "payment". The name of a policy is for a message, as in enqueue(…, { retryPolicy: 'payment' })`,
    ],
    [
      'ordered in leased mode',
      () => sluice.pipeline('q', { mode: 'leased', ordered: true } as never),
      'pipeline("q").ordered is not an option of leased mode. Give the messages an orderingKey',
    ],
    [
      'a retry of an unknown kind',
      () => sluice.pipeline('q', { retry: { kind: 'linear' } } as never),
      `pipeline("q").retry.kind: expected 'fixed' or 'exponential', received "linear". As in { kind: 'fixed', delay: '5s' }`,
    ],
    [
      'a schema where a definition is expected',
      () => createSluice({ connection, queues: { emails: z.object({}) } } as never),
      'queues.emails: expected the definition of a queue, received a schema. Write { schema: … } around it',
    ],
    [
      'queues as a list',
      () => createSluice({ connection, queues: ['emails'] } as never),
      'queues: expected an object with the names of queues as keys, received an array of 1. As in { emails: { schema: Email } }',
    ],
    [
      'a connection string alone',
      () => createSluice(connection as never),
      'createSluice: expected an object of options, received a connection string. As in createSluice({ connection: ',
    ],
    [
      'a misspelt option',
      () => sluice.pipeline('q', { concurency: 4 } as never),
      'received "concurency". Did you mean concurrency?',
    ],
    ['retries', () => sluice.pipeline('q', { retries: 3 } as never), 'received "retries". Did you mean maxAttempts?'],
    ['maxRetries', () => sluice.pipeline('q', { maxRetries: 3 } as never), 'Did you mean maxAttempts?'],
    ['attempts', () => sluice.pipeline('q', { attempts: 3 } as never), 'Did you mean maxAttempts?'],
    ['a misspelt queue', () => defined.pipeline('emial' as never), 'received "emial". Did you mean "emails"?'],
    ['an unknown queue', () => defined.pipeline('x' as never), 'Define it in the option queues of createSluice'],
    ['a name with a space', () => sluice.pipeline('my queue'), `received "my queue". For example 'emails'`],
    [
      'deliveries without a demand',
      () => sluice.deliveries('q', { batchSize: 5 } as never),
      'deliveries.demand: expected an integer from 1 to 1000, received undefined. How many messages may be locked',
    ],
    [
      'a batch above the demand',
      () => sluice.deliveries('q', { demand: 2, batchSize: 5 }),
      'deliveries.batchSize: expected an integer from 1 to 2, received 5. It is at most the demand',
    ],
    ['log: a function', () => createSluice({ connection, log: () => undefined } as never), 'For example console, '],
  ])('%s', ([, call, says]) => {
    expect(refusalOf(call)).toContain(says)
  })

  const enqueued = (options: object) => () => sluice.enqueue(tx, 'q', 1, options as never)
  test.for<[string, () => Promise<unknown>, string]>([
    ['startAfter', enqueued({ startAfter: 5 }), 'received "startAfter". Did you mean delay or dueAt?'],
    ['jobId', enqueued({ jobId: 'a' }), 'received "jobId". Did you mean dedupe?'],
    ['singletonKey', enqueued({ singletonKey: 'a' }), 'received "singletonKey". Did you mean dedupe?'],
    ['an invalid Date', enqueued({ dueAt: new Date('x') }), 'in the years 1 to 9999, received an invalid Date. As in'],
    [
      'tz',
      () => sluice.schedules.set('s', { cron: '* * * * *', tz: 'UTC', queue: 'q', payload: 1 } as never),
      'received "tz". Did you mean zone?',
    ],
    [
      'an id that is a number',
      () => sluice.operate.messages.cancel('q', 4711 as never),
      'received 4711. Turn a number into text with String(…)',
    ],
    [
      'a Date to reschedule',
      () => sluice.operate.messages.reschedule('q', '1', new Date() as never),
      'reschedule: expected delay or dueAt, received a Date. As in { dueAt: date }',
    ],
    [
      'clear of dead letters',
      () => sluice.operate.queues.clear('q', { state: 'dead' } as never),
      'received "dead". operate.deadLetters redrives and deletes dead letters',
    ],
    [
      'a filter of a clear that has no value',
      () => sluice.operate.queues.clear('q', { tenant: undefined as never }),
      'queues.clear.tenant: expected a value, received undefined. Leave tenant out to match any',
    ],
    [
      'a filter of a clear whose prototype has no value',
      () => sluice.operate.queues.clear('q', Object.create({ type: undefined })),
      'queues.clear.type: expected a value, received undefined. Leave type out to match any',
    ],
    [
      'a clear by no filter',
      () => sluice.operate.queues.clear('q', undefined as never),
      "queues.clear: expected a filter, received undefined. As in queues.clear('emails', { type: 'order.paid' }). Leave the filter out to match all",
    ],
    [
      'a move by no filter',
      () => sluice.operate.queues.move('q', 'r', undefined as never),
      "queues.move: expected a filter, received undefined. As in queues.move('ordres', 'orders', { type: 'order.paid' }). Leave the filter out to match all",
    ],
    [
      'a filter of a deletion that has no value',
      () => sluice.operate.deadLetters.delete({ queue: 'q', ids: undefined as never }),
      'deadLetters.delete.ids: expected a value, received undefined. Leave ids out to match any',
    ],
    [
      'a time to keep actions that has no value',
      () => sluice.operate.audit.keep(undefined as never),
      "audit.keep: expected a duration, received undefined. As in audit.keep('365d'). audit.keep() reads it",
    ],
    [
      'unset by no names',
      () => sluice.operate.queues.settings.unset('q', undefined as never, { by: 'ada' }),
      "queues.settings.unset: expected an array of names, received undefined. As in queues.settings.unset('emails', ['ttl']). queues.settings.unset('emails') unsets all",
    ],
    [
      'unset of a setting that is none',
      () => sluice.operate.queues.settings.unset('q', ['nope' as never]),
      'settings.unset: expected only the options delay',
    ],
    [
      'a string as an instant',
      () => sluice.enqueue(tx, 'q', 1, { dueAt: '2026-01-01' as never }),
      'options.dueAt: expected a valid Date in the years 1 to 9999, received "2026-01-01". As in new Date(',
    ],
    ['a delay as the options', () => sluice.enqueue(tx, 'q', 1, '5m' as never), `received "5m". As in { delay: '5m'`],
    [
      'a number as an ordering key',
      () => sluice.enqueue(tx, 'q', 1, { orderingKey: 7 as never }),
      'options.orderingKey: expected a string, received 7. Turn a number into a string with String(…)',
    ],
    [
      'payloads without their property',
      () => sluice.enqueueMany(tx, 'q', [{ to: 'ada' }] as never),
      'messages[0]: expected an object with a payload, received one without. As in [{ payload: … }',
    ],
    ['payloads alone', () => sluice.enqueueMany(tx, 'q', ['ada'] as never), 'received "ada". As in [{ payload: … }'],
    [
      'a pool',
      () => sluice.enqueue(new pg.Pool() as never, 'q', 1),
      'received a pg Pool. Use a client of pool.connect()',
    ],
    [
      'nothing',
      () => sluice.enqueue(undefined as never, 'q', 1),
      'received undefined. Pass the transaction that changes',
    ],
    [
      "a handler's transaction of a copy before 0.1.0, whose method is another",
      () => sluice.enqueue({ [Symbol.for('sluice.execute')]: async () => [] } as never, 'q', 1),
      'or the tx of a handler, received an object. Pass the transaction that changes',
    ],
    [
      'a promise of a transaction',
      () => sluice.enqueue(Promise.resolve(tx) as never, 'q', 1),
      'tx: expected an open transaction, received a Promise. Await it first',
    ],
  ])('%s', async ([, call, says]) => {
    await expect(call()).rejects.toMatchObject({ message: expect.stringContaining(says) })
  })

  test('a Sluice that has been stopped', async () => {
    const stopped = createSluice({ connection })
    await stopped.stop()
    await expect(stopped.start()).rejects.toMatchObject({
      code: 'STOPPED',
      message: expect.stringContaining('Make another with createSluice, or call stop() later'),
    })
  })
})

describe('is refused where it is written', () => {
  const sluice = createSluice({ connection })
  const pipeline = sluice.pipeline('q')
  const send = () => undefined

  test.for<[string, () => unknown, string]>([
    ['handle()', () => pipeline.handle(undefined as never), 'handle: expected a function, received undefined'],
    [
      'handleBatch({})',
      () => pipeline.handleBatch({} as never),
      'handleBatch: expected a function, received an object',
    ],
    [
      'handleDeliveries()',
      () => handleDeliveries(undefined as never),
      'handleDeliveries: expected a function, received undefined',
    ],
    ["retryLater('5m')", () => retryLater('5m' as never), 'retryLater: expected an object of options, received "5m"'],
    [
      'retryLater({ afer })',
      () => retryLater({ afer: '5m' } as never),
      'retryLater: expected only the options after, atLeast, error, received',
    ],
    ['snooze()', () => snooze(undefined as never), 'snooze: expected an object of options, received undefined'],
    ["snooze('5m')", () => snooze('5m' as never), 'snooze: expected an object of options, received "5m"'],
    ['snooze({})', () => snooze({} as never), 'snooze.after: expected milliseconds from 0'],
    ['deadLetter()', () => deadLetter(undefined as never), 'deadLetter: expected a reason as text, received undefined'],
    ['deadLetter(error)', () => deadLetter(new Error('x') as never), 'deadLetter: expected a reason as text, received'],
    [
      'routes()',
      () => routes(undefined as never),
      'routes: expected an array of one route or more, received undefined',
    ],
    ['routes([])', () => routes([]), 'routes: expected an array of one route or more, received an array'],
    ['routes({})', () => routes({} as never), 'routes: expected an array of one route or more, received an object'],
    ['routes([null])', () => routes([null] as never), 'routes[0]: expected an object of options, received null'],
    ['routes without handle', () => routes([{ match: 'a' }] as never), 'routes[0].handle: expected a function'],
    ['routes with more', () => routes([{ match: 'a', handle: send, on: 1 }] as never), 'routes[0]: expected only'],
  ])('%s', ([, call, refusal]) => {
    expect(refusalOf(call)).toContain(`OPTION_INVALID: ${refusal}`)
  })

  test.for<[string, () => Promise<unknown>, string]>([
    ['runDue()', () => runDue(undefined as never), 'runDue: expected pipelines with a handler, received undefined'],
    [
      'runDue(pipeline)',
      () => runDue(pipeline as never),
      'runDue: expected pipelines with a handler, received a Pipeline',
    ],
    ['runDue(sluice)', () => runDue([sluice] as never), 'runDue: expected pipelines with a handler, received a Sluice'],
    ['deliver with {}', () => deliver(sluice, 'q', send, {} as never), 'deliver: expected an array of messages'],
    [
      'deliver with [1]',
      () => deliver(sluice, 'q', send, [1] as never),
      'messages[0]: expected an object with a payload',
    ],
    ['deliver without handler', () => deliver(sluice, 'q', null as never, []), 'deliver: expected a function'],
  ])('%s', async ([, call, refusal]) => {
    await expect(call()).rejects.toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(refusal) })
  })
})

describe('operate says what to do', () => {
  const { operate } = createSluice({ connection })
  test.for<[string, () => Promise<unknown>, string]>([
    [
      'messages of the dead',
      () => operate.messages.list({ queue: 'q', state: 'dead' as never }),
      'received "dead". deadLetters.list lists dead messages',
    ],
    [
      'messages without options',
      () => operate.messages.list(undefined as never),
      "As in messages.list({ queue: 'emails' })",
    ],
    [
      'a limit alone',
      () => operate.messages.peek('q', 5 as never),
      "received 5. As in messages.peek('emails', { limit: 5 })",
    ],
    [
      'a queue alone',
      () => operate.deadLetters.redrive('q' as never),
      "As in deadLetters.redrive({ queue: 'emails' })",
    ],
    [
      'no choice of dead letters',
      () => operate.deadLetters.redrive({} as never),
      'deadLetters.redrive: expected either a queue or allQueues: true, received neither',
    ],
  ])('for %s', async ([, act, says]) => {
    await expect(act()).rejects.toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(says) })
  })
})

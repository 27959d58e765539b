import pg from 'pg'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import {
  createSluice,
  deadLetter,
  migrate,
  process,
  retry,
  routes,
  type SluiceOptions,
  snooze,
} from '../../src/index.ts'
import { deliver, runDue } from '../../src/testing.ts'
import { refusalOf } from '../support/refusal.ts'

const connection = 'postgres://localhost/nowhere'

test.for([
  [new pg.Pool(), 'a BoundPool'],
  [undefined, 'undefined'],
] as const)('migrate refuses %o as its connection', async ([given, received]) => {
  await expect(migrate(given as never)).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining(`received ${received}`),
  })
})

test('enqueue says that the transaction is missing where a queue was given first', async () => {
  const sluice = createSluice({ connection })
  await expect(sluice.enqueue('mail', { n: 1 } as never, undefined)).rejects.toMatchObject({
    code: 'EXECUTOR_UNKNOWN',
    message:
      'tx: expected an open transaction as the first argument, received "mail". As in enqueue(tx, queue, payload)',
  })
})

describe('createSluice refuses at once', () => {
  test.for([
    ['a pool', new pg.Pool(), 'a BoundPool'],
    ['a client', new pg.Client(), 'a Client'],
    ['a URL', new URL(connection), 'a URL'],
    ['another database', 'mysql://me:secret@db/app', 'another text'],
    ['no URL', 'notaurl', 'another text'],
    ['keywords as libpq takes them', 'host=db password=secret', 'another text'],
    ['an empty text', '', '""'],
    ['nothing', undefined, 'undefined'],
    ['a list', [connection], 'an array of 1'],
  ] as const)('%s as its connection', ([, given, received]) => {
    const wanted = "a text that begins with 'postgres://', or an object of options as pg.Client takes it"
    for (const what of ['connection', 'directConnection']) {
      if (what === 'directConnection' && given === undefined) continue
      expect(refusalOf(() => createSluice({ connection, [what]: given } as never))).toBe(
        `OPTION_INVALID: ${what}: expected ${wanted}, received ${received}. For example process.env.DATABASE_URL`,
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
  ])('and not %o', (given) => {
    expect(() => createSluice({ connection: given, queues: { q: { schema: z.string() }, r: {} } })).not.toThrow()
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
    ['process()', () => process(undefined as never), 'process: expected a function, received undefined'],
    ["retry('5m')", () => retry('5m' as never), 'retry: expected an object of options, received "5m"'],
    [
      'retry({ afer })',
      () => retry({ afer: '5m' } as never),
      'retry: expected only the options after, error, received',
    ],
    ['snooze()', () => snooze(undefined as never), 'snooze: expected an object of options, received undefined'],
    ["snooze('5m')", () => snooze('5m' as never), 'snooze: expected an object of options, received "5m"'],
    ['snooze({})', () => snooze({} as never), 'snooze.after: expected milliseconds from 0'],
    ['deadLetter()', () => deadLetter(undefined as never), 'deadLetter: expected a reason as text, received undefined'],
    ['deadLetter(error)', () => deadLetter(new Error('x') as never), 'deadLetter: expected a reason as text, received'],
    ['routes()', () => routes(undefined as never), 'routes: expected an array of routes, received undefined'],
    ['routes({})', () => routes({} as never), 'routes: expected an array of routes, received an object'],
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

import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { resolveConfig, type SluiceOptions } from '../../../src/config.ts'
import type { DeliveriesOptions } from '../../../src/plan/deliveries-options.ts'
import type { PipelineOptions } from '../../../src/plan/options.ts'
import { resolvePipeline } from '../../../src/plan/resolve.ts'
import type { QueueDefinitions } from '../../../src/queues.ts'
import { createSluice } from '../../../src/sluice.ts'
import { refusalOf } from '../../support/refusal.ts'

const connection = 'postgres://localhost/nowhere'
const DURATION = "milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d'"

describe('the options of a pipeline', () => {
  test('have defaults', () => {
    const { retry, ...plan } = resolvePipeline('mails', {})
    expect(plan).toEqual({
      queue: 'mails',
      mode: 'transactional',
      concurrency: 1,
      batchSize: 10,
      timeoutMs: 30_000,
      maxAttempts: 20,
      ordered: false,
    })
    expect(retry(1, undefined)).toBeGreaterThanOrEqual(800)
    expect(retry(1, undefined)).toBeLessThanOrEqual(1_000)
  })

  test.each<[PipelineOptions]>([
    [{ concurrency: 1, batchSize: 1, maxAttempts: 1, ordered: true }],
    [{ concurrency: 1_000, batchSize: 1_000, maxAttempts: 1_000_000, ordered: false }],
  ])('take their bounds: %o', (options) => {
    expect(resolvePipeline('mails', options)).toMatchObject(options)
  })

  test.each([
    ['250ms', 250],
    ['1h', 3_600_000],
    [1, 1],
    [1_500.2, 1_501],
  ] as const)('take a timeout of %o', (timeout, ms) => {
    expect(resolvePipeline('mails', { timeout }).timeoutMs).toBe(ms)
  })

  test.each([
    [{ concurrency: 0 }, 'OPTION_INVALID', 'concurrency: expected an integer from 1 to 1000, received 0'],
    [{ concurrency: 1_001 }, 'OPTION_INVALID', 'concurrency: expected an integer from 1 to 1000, received 1001'],
    [{ concurrency: 2.5 }, 'OPTION_INVALID', 'concurrency: expected an integer from 1 to 1000, received 2.5'],
    [{ concurrency: '2' }, 'OPTION_INVALID', 'concurrency: expected an integer from 1 to 1000, received "2"'],
    [{ batchSize: 0 }, 'OPTION_INVALID', 'batchSize: expected an integer from 1 to 1000, received 0'],
    [{ batchSize: Number.NaN }, 'OPTION_INVALID', 'batchSize: expected an integer from 1 to 1000, received NaN'],
    [{ batchSize: null }, 'OPTION_INVALID', 'batchSize: expected an integer from 1 to 1000, received null'],
    [{ maxAttempts: 0 }, 'OPTION_INVALID', 'maxAttempts: expected an integer from 1 to 1000000, received 0'],
    [{ timeout: 0 }, 'OPTION_INVALID', `timeout: expected a duration from '1ms' to '1h', received 0`],
    [{ timeout: 0.5 }, 'OPTION_INVALID', `timeout: expected a duration from '1ms' to '1h', received 0.5`],
    [{ timeout: 3_600_001 }, 'OPTION_INVALID', `timeout: expected a duration from '1ms' to '1h', received 3600001`],
    [{ timeout: '2h' }, 'OPTION_INVALID', `timeout: expected a duration from '1ms' to '1h', received "2h"`],
    [{ timeout: null }, 'OPTION_INVALID', `timeout: expected ${DURATION}, received null`],
    [{ timeout: '5 minutes' }, 'OPTION_INVALID', `timeout: expected ${DURATION}, received "5 minutes"`],
    [{ ordered: 'yes' }, 'OPTION_INVALID', 'ordered: expected true or false, received "yes"'],
  ])('have bounds: %o', (options: object, code, refusal) => {
    expect(refusalOf(() => resolvePipeline('mails', options))).toBe(`${code}: pipeline("mails").${refusal}`)
  })

  test.each([
    [
      { batchsize: 5 },
      'only the options mode, concurrency, batchSize, timeout, retry, maxAttempts, ordered, throttle, onError, backlog, group, received "batchsize"',
    ],
    [
      { timeoutMs: 5_000 },
      'only the options mode, concurrency, batchSize, timeout, retry, maxAttempts, ordered, throttle, onError, backlog, group, received "timeoutMs"',
    ],
    [null, 'an object of options, received null'],
    ['fast', 'an object of options, received "fast"'],
  ])('are refused: %o', (options: unknown, refusal) => {
    expect(refusalOf(() => resolvePipeline('mails', options as PipelineOptions))).toContain(
      `OPTION_INVALID: pipeline("mails"): expected ${refusal}`,
    )
  })

  test('are checked when the pipeline is made, before anything connects', () => {
    const sluice = createSluice({ connection })
    expect(refusalOf(() => sluice.pipeline('mails', { batchSize: 0 }))).toMatch(/^OPTION_INVALID: pipeline\("mails"\)/)
    expect(refusalOf(() => sluice.pipeline('no such name'))).toMatch(/^QUEUE_NAME_INVALID: queue: expected a name/)
  })
})

describe('the options of deliveries', () => {
  const sluice = createSluice({ connection })

  test('take their bounds', () => {
    sluice.deliveries('mails', { demand: 1 })
    sluice.deliveries('mails', { demand: 1_000, batchSize: 1_000, timeout: '1h', maxAttempts: 1, ordered: true })
  })

  test.each([
    [{ demand: 0 }, 'OPTION_INVALID: deliveries.demand: expected an integer from 1 to 1000, received 0'],
    [{ demand: 1_001 }, 'OPTION_INVALID: deliveries.demand: expected an integer from 1 to 1000, received 1001'],
    [
      { demand: Number.POSITIVE_INFINITY },
      'OPTION_INVALID: deliveries.demand: expected an integer from 1 to 1000, received Infinity',
    ],
    [{ demand: 4, batchSize: 5 }, 'OPTION_INVALID: deliveries.batchSize: expected an integer from 1 to 4, received 5'],
    [
      { demand: 4, timeout: '2h' },
      `OPTION_INVALID: pipeline("mails").timeout: expected a duration from '1ms' to '1h', received "2h"`,
    ],
    [
      { demand: 4, concurrency: 2 },
      'OPTION_INVALID: deliveries: expected only the options demand, mode, batchSize, timeout, retry, maxAttempts, ordered, throttle, group, received "concurrency"',
    ],
    [undefined, 'OPTION_INVALID: deliveries: expected an object of options, received undefined'],
  ])('have bounds: %o', (options: unknown, refusal) => {
    expect(refusalOf(() => sluice.deliveries('mails', options as DeliveriesOptions))).toContain(refusal)
  })
})

describe('the options of createSluice', () => {
  test('have defaults', () => {
    expect(resolveConfig({ connection })).toEqual({
      connection: { connectionString: connection },
      directConnection: { connectionString: connection },
      vouched: false,
      definitions: undefined,
      name: expect.stringMatching(new RegExp(`:${process.pid}$`)),
      pollIntervalMs: 1_000,
      connectTimeoutMs: 5_000,
      payloadLimitBytes: 1_048_576,
      crashLimit: 3,
      maintenanceIntervalMs: 300_000,
      storedPolicies: null,
      calledPolicies: undefined,
    })
  })

  test('take durations as numbers and as strings', () => {
    expect(resolveConfig({ connection, pollInterval: '1m', connectTimeout: 100 })).toMatchObject({
      pollIntervalMs: 60_000,
      connectTimeoutMs: 100,
    })
  })

  test('take what pg takes, and a direct connection beside a pooled one', () => {
    const config = resolveConfig({ connection: { host: 'pooler' }, directConnection: 'postgres://direct/db' })
    expect(config.connection).toEqual({ host: 'pooler' })
    expect(config.directConnection).toEqual({ connectionString: 'postgres://direct/db' })
    expect(config.vouched).toBe(true)
  })

  test.each([
    [{ pollInterval: 99 }, "pollInterval: expected a duration from '100ms' to '1m', received 99"],
    [{ pollInterval: '61s' }, `pollInterval: expected a duration from '100ms' to '1m', received "61s"`],
    [{ connectTimeout: 99 }, "connectTimeout: expected a duration from '100ms' to '10m', received 99"],
    [{ connectTimeout: 'soon' }, `connectTimeout: expected ${DURATION}, received "soon"`],
    [{ payloadLimitBytes: 0 }, 'payloadLimitBytes: expected an integer from 1 to 268435456, received 0'],
    [{ crashLimit: 0 }, 'crashLimit: expected an integer from 1 to 1000, received 0'],
    [{ crashLimit: 1_001 }, 'crashLimit: expected an integer from 1 to 1000, received 1001'],
  ])('have bounds: %o', (options: object, refusal) => {
    expect(refusalOf(() => createSluice({ connection, ...options }))).toBe(`OPTION_INVALID: ${refusal}`)
  })

  test.each([
    [
      { connectionString: connection },
      /^OPTION_INVALID: createSluice: expected only the options connection, .*, received "connectionString"\. Did you mean connection\?$/,
    ],
    [null, /^OPTION_INVALID: createSluice: expected an object of options, received null\. As in createSluice\(/],
    [
      {},
      /^OPTION_INVALID: connection: expected a string that begins with 'postgres:\/\/', or an object of options as pg.Client takes it, received undefined/,
    ],
    [{ connection: '' }, /^OPTION_INVALID: connection: expected a string/],
    [{ connection, directConnection: 5 }, /^OPTION_INVALID: directConnection: expected a string/],
    [
      { connection, queues: { 'no such name': {} } },
      /^QUEUE_NAME_INVALID: queue: expected a name .*, received "no such name"/,
    ],
  ])('are refused: %o', (options: unknown, refusal) => {
    expect(refusalOf(() => createSluice(options as SluiceOptions<QueueDefinitions>))).toMatch(refusal)
  })

  test('say nothing of a connection string, which holds a password', () => {
    const refusal = refusalOf(() => createSluice({ connection: ['postgres://me:secret@host/db'] as never }))
    expect(refusal).not.toContain('secret')
  })

  test('with queues refuse other names', () => {
    const sluice = createSluice({ connection, queues: { mails: { schema: z.string() }, orders: {} } })
    expect(refusalOf(() => sluice.pipeline('mail' as 'mails'))).toBe(
      'QUEUE_UNKNOWN: queue: expected one of the queues defined (mails, orders), received "mail". Did you mean "mails"?',
    )
    expect(refusalOf(() => sluice.deliveries('toString' as 'mails', { demand: 1 }))).toMatch(/^QUEUE_UNKNOWN/)
  })

  test('with streams refuse the name of one where a queue is wanted', () => {
    const sluice = createSluice({ connection, streams: { orders: {} } })
    expect(refusalOf(() => sluice.pipeline('orders' as never))).toBe(
      `QUEUE_UNKNOWN: queue: expected the name of a queue, received "orders". That is a stream: give the group that reads it, as in { group: 'billing' }`,
    )
    const typed = createSluice({ connection, queues: { mails: {} }, streams: { orders: {} } })
    expect(refusalOf(() => typed.pipeline('orders:billing' as never))).toMatch(
      /"orders:billing"\. That is the queue of a group of orders: give the group that reads it/,
    )
    expect(refusalOf(() => typed.pipeline('other:billing' as never))).toMatch(/Define it in the option queues/)
  })
})

describe('the definition of a queue', () => {
  test.each([
    ['a misspelt schema', { shema: {} }, 'shema'],
    ['a schema without its key', { '~standard': {} }, '~standard'],
  ])('refuses %s, which would switch validation off', (_, definition, key) => {
    const create = () =>
      createSluice({ connection: 'postgres://localhost/db', queues: { emails: definition as never } })
    expect(create).toThrow(`queues.emails: expected only the options schema, received "${key}"`)
  })
})

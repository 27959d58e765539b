import { describe, expect, test } from 'vitest'
import { readOptions } from '../../../src/enqueue/options.ts'

const DEFAULTS = {
  type: null,
  schemaVersion: 1,
  headers: '{}',
  orderingKey: null,
  priority: 5,
  delayMs: null,
  dueAt: null,
  maxAttempts: null,
  ttlMs: null,
  retryPolicy: null,
  leaseMs: null,
  tenant: null,
  dedupe: null,
}

describe('readOptions', () => {
  test.each<[string, unknown, object]>([
    ['nothing', undefined, {}],
    ['an empty object', {}, {}],
    ['options left undefined', { type: undefined, delay: undefined, dueAt: undefined, headers: undefined }, {}],
    ['a type', { type: 'order.paid' }, { type: 'order.paid' }],
    ['a type of one segment in any script', { type: 'событие' }, { type: 'событие' }],
    ['a schema version', { schemaVersion: 2 }, { schemaVersion: 2 }],
    [
      'headers',
      { headers: { trace: 'x', at: new Date(0) } },
      { headers: '{"trace":"x","at":"1970-01-01T00:00:00.000Z"}' },
    ],
    ['an ordering key', { orderingKey: 'customer 7' }, { orderingKey: 'customer 7' }],
    ['the longest ordering key', { orderingKey: 'é'.repeat(127) }, { orderingKey: 'é'.repeat(127) }],
    ['the first priority', { priority: 0 }, { priority: 0 }],
    ['the last priority', { priority: 9 }, { priority: 9 }],
    ['a delay in milliseconds', { delay: 1500 }, { delayMs: 1500 }],
    ['a delay with a unit', { delay: '5m' }, { delayMs: 300_000 }],
    ['no delay', { delay: 0 }, { delayMs: 0 }],
    ['a time to deliver at', { dueAt: new Date('2031-02-03T04:05:06.789Z') }, { dueAt: '2031-02-03T04:05:06.789Z' }],
    ['a limit of attempts', { maxAttempts: 1 }, { maxAttempts: 1 }],
    ['a time to live', { ttl: '10m' }, { ttlMs: 600_000 }],
    ['a retry policy', { retryPolicy: 'gentle' }, { retryPolicy: 'gentle' }],
    ['a lease', { lease: '90s' }, { leaseMs: 90_000 }],
    ['a tenant', { tenant: 'acme' }, { tenant: 'acme' }],
  ])('reads %s', (_, options, columns) => {
    const isPlain = Object.keys(columns).length === 0
    expect(readOptions(options, 'options')).toEqual({ ...DEFAULTS, ...columns, isPlain })
  })

  test.each<[string, unknown, string]>([
    ['null', null, 'options: expected an object of options, received null'],
    ['no time to live', { ttl: 0 }, "options.ttl: expected a duration from '1ms' to '36525d', received 0"],
    ['a time to live of less than a millisecond', { ttl: 0.0004 }, "options.ttl: expected a duration from '1ms'"],
    ['a lease below a second', { lease: '999ms' }, "options.lease: expected a duration from '1s' to '24h'"],
    ['an empty tenant', { tenant: '' }, 'options.tenant: expected 1 to 255 bytes of text'],
    [
      'a retry policy that is a policy',
      { retryPolicy: { kind: 'fixed' } },
      'options.retryPolicy: expected a name of 1 to 100 bytes, received an object',
    ],
    ['a string', 'high', 'options: expected an object of options, received "high"'],
    ['an array', [], 'options: expected an object of options, received an array of 0'],
    ['an empty type', { type: '' }, 'options.type: expected 1 to 255 bytes of text'],
    ['a type with an empty segment', { type: 'order..paid' }, 'options.type: expected dot-separated text'],
    ['a type that ends in a dot', { type: 'order.' }, 'options.type: expected dot-separated text'],
    ['a type with a wildcard', { type: 'order.*' }, 'options.type: expected dot-separated text'],
    ['a type with a space', { type: 'order paid' }, 'options.type: expected dot-separated text'],
    ['a type that is no text', { type: 7 }, 'options.type: expected dot-separated text'],
    ['too long a type', { type: 'x'.repeat(256) }, 'options.type: expected 1 to 255 bytes of text'],
    [
      'schema version 0',
      { schemaVersion: 0 },
      'options.schemaVersion: expected an integer from 1 to 2147483647, received 0',
    ],
    ['a fractional schema version', { schemaVersion: 1.5 }, 'options.schemaVersion: expected an integer'],
    [
      'headers that are an array',
      { headers: [] },
      'options.headers: expected an object of JSON values, received an array',
    ],
    ['headers that are null', { headers: null }, 'options.headers: expected an object of JSON values, received null'],
    ['headers that become a string', { headers: new Date() }, 'options.headers: expected an object of JSON values'],
    [
      'a header that JSON cannot hold',
      { headers: { n: 1n } },
      'options.headers.n: expected a JSON value, received a bigint',
    ],
    ['an empty ordering key', { orderingKey: '' }, 'options.orderingKey: expected 1 to 255 bytes of text, received ""'],
    ['too long an ordering key', { orderingKey: 'é'.repeat(128) }, 'options.orderingKey: expected 1 to 255 bytes'],
    ['an ordering key that is a number', { orderingKey: 7 }, 'options.orderingKey: expected a string, received 7'],
    ['an ordering key that is null', { orderingKey: null }, 'options.orderingKey: expected a string, received null'],
    ['an ordering key with a NUL', { orderingKey: 'a\0' }, 'options.orderingKey: expected text without NUL'],
    ['an ordering key with a lone surrogate', { orderingKey: '\ud800' }, 'options.orderingKey: expected text without'],
    ['priority -1', { priority: -1 }, 'options.priority: expected an integer from 0 to 9, received -1'],
    ['priority 10', { priority: 10 }, 'options.priority: expected an integer from 0 to 9, received 10'],
    ['a priority in words', { priority: 'high' }, 'options.priority: expected an integer from 0 to 9, received "high"'],
    ['a negative delay', { delay: -1 }, 'options.delay: expected milliseconds from 0'],
    ['a delay that is NaN', { delay: NaN }, 'options.delay: expected milliseconds from 0'],
    ['a delay of an unknown unit', { delay: '5 weeks' }, 'options.delay: expected milliseconds from 0'],
    ['both delay and dueAt', { delay: 1, dueAt: new Date() }, 'options: expected delay or dueAt, received both'],
    ['an invalid date', { dueAt: new Date(NaN) }, 'options.dueAt: expected a valid Date'],
    ['a date as text', { dueAt: '2031-01-01' }, 'options.dueAt: expected a valid Date'],
    ['a date that timestamptz cannot read', { dueAt: new Date(8.64e15) }, 'options.dueAt: expected a valid Date'],
    ['no attempts at all', { maxAttempts: 0 }, 'options.maxAttempts: expected an integer from 1'],
    ['infinite attempts', { maxAttempts: Infinity }, 'options.maxAttempts: expected an integer from 1'],
  ])('refuses %s', (_, options, message) => {
    expect(() => readOptions(options, 'options')).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(() => readOptions(options, 'options')).toThrow(message)
  })

  test.each<[string, string]>([
    ['delayMs', 'Did you mean delay?'],
    ['priorty', 'Did you mean priority?'],
    ['due_at', 'Did you mean dueAt?'],
    ['attempts', 'Did you mean maxAttempts?'],
    ['OrderingKey', 'Did you mean orderingKey?'],
    ['version', 'Did you mean schemaVersion?'],
    ['unique', "As in { delay: '5m', priority: 0 }"],
  ])('refuses the unknown option %s, naming the nearest', (name, remedy) => {
    expect(() => readOptions({ [name]: 1 }, 'messages[3]')).toThrow(
      `messages[3]: expected only the options headers, type, schemaVersion, orderingKey, priority, dueAt, delay, ` +
        `maxAttempts, ttl, retryPolicy, lease, tenant, dedupe, received "${name}". ${remedy}`,
    )
  })
})

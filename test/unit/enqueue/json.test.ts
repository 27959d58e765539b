import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeJson } from '../../../src/enqueue/json.ts'
import { ODD_PAYLOADS } from '../../support/odd-payloads.ts'

class Money {
  readonly amount = 5
  readonly currency = 'CHF'
  get text(): string {
    return `${this.amount} ${this.currency}`
  }
}

class Celsius {
  readonly #degrees: number
  constructor(degrees: number) {
    this.#degrees = degrees
  }
  toJSON(key: string): unknown {
    return { key, degrees: this.#degrees }
  }
}

class Itself {
  readonly n = 1
  toJSON(): unknown {
    return this
  }
}

describe('encodeJson', () => {
  test('writes what JSON.stringify writes, for every JSON value', () => {
    const json = fc
      .jsonValue({ maxDepth: 6, stringUnit: 'grapheme' })
      .filter((value) => !JSON.stringify(value).includes('\\u0000'))
    fc.assert(fc.property(json, (value) => void expect(encodeJson(value, 'payload')).toBe(JSON.stringify(value))))
  })

  test.each(ODD_PAYLOADS.map((payload) => [JSON.stringify(payload), payload]))('writes %s', (text, payload) => {
    expect(encodeJson(payload, 'payload')).toBe(text)
  })

  test.each([
    ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ['a class instance by its fields', { price: new Money() }, '{"price":{"amount":5,"currency":"CHF"}}'],
    ['toJSON, with the key', { oven: [new Celsius(200)] }, '{"oven":[{"key":"0","degrees":200}]}'],
    ['toJSON at the top, with an empty key', new Celsius(1), '{"key":"","degrees":1}'],
    ['toJSON that gives itself', new Itself(), '{"n":1}'],
    ['a URL', new URL('https://example.org/a?b'), '"https://example.org/a?b"'],
    ['an object without prototype', Object.assign(Object.create(null), { a: 1 }), '{"a":1}'],
    ['no undefined properties', { a: undefined, b: { c: undefined } }, '{"b":{}}'],
    ['no symbol keys', { [Symbol('brand')]: 1, a: 2 }, '{"a":2}'],
    ['the same object twice', twice({ a: 1 }), '[{"a":1},{"a":1}]'],
    ['minus zero as zero', -0, '0'],
  ])('writes %s', (_, value, text) => {
    expect(encodeJson(value, 'payload')).toBe(text)
    expect(JSON.stringify(value)).toBe(text)
  })

  test.each<[string, unknown, string]>([
    ['undefined', undefined, 'payload: expected a JSON value, received undefined. Use null, or leave the property out'],
    ['an undefined item', { a: [1, undefined] }, 'payload.a[1]: expected a JSON value, received undefined'],
    ['a hole', { a: Array(2) }, 'payload.a[0]: expected a JSON value, received undefined'],
    ['a function', { on: { click() {} } }, 'payload.on.click: expected a JSON value, received a function (click)'],
    ['a symbol', [Symbol('x')], 'payload[0]: expected a JSON value, received Symbol(x)'],
    ['a BigInt', { id: 10n }, 'payload.id: expected a JSON value, received a bigint. Use a string'],
    ['NaN', { 'odd key': NaN }, 'payload["odd key"]: expected a finite number, received NaN'],
    ['Infinity', [[Infinity]], 'payload[0][0]: expected a finite number, received Infinity'],
    ['minus Infinity', -Infinity, 'payload: expected a finite number, received -Infinity'],
    ['an invalid date', { at: new Date(NaN) }, 'payload.at: expected a valid Date, received an invalid one'],
    ['a Map', { m: new Map() }, 'payload.m: expected a JSON value, received a Map. Use Object.fromEntries(map)'],
    ['a Set', new Set([1]), 'payload: expected a JSON value, received a Set. Use [...set]'],
    [
      'a promise',
      { user: Promise.resolve(1) },
      'payload.user: expected a JSON value, received a Promise. Await it first',
    ],
    ['an error', new Error('x'), 'payload: expected a JSON value, received an Error. Use its name and message'],
    ['a RegExp', /x/, 'payload: expected a JSON value, received a RegExp'],
    ['a typed array', new Uint8Array(2), 'payload: expected a JSON value, received a Uint8Array'],
    [
      'a buffer, which has a form of its own',
      { b: Buffer.from('hi') },
      'payload.b: expected a JSON value, received a Buffer',
    ],
    ['an array buffer', new ArrayBuffer(2), "Use a string, for example Buffer.from(bytes).toString('base64')"],
    ['a boxed number', Object(1), 'payload: expected a JSON value, received a Number'],
    ['toJSON that gives nothing', { a: { toJSON() {} } }, 'payload.a: expected a JSON value, received undefined'],
    ['a NUL character', { a: 'x\0' }, 'payload.a: expected text that jsonb can hold, received a NUL character'],
    ['a NUL character in a key', { 'x\0': 1 }, 'payload["x\\u0000"]: expected text that jsonb can hold'],
    ['a lone surrogate', ['\ud800'], 'payload[0]: expected text that jsonb can hold, received a lone surrogate'],
    ['a lone surrogate in a key', { '\udc00': 1 }, 'expected text that jsonb can hold, received a lone surrogate'],
    ['a cycle', cycle(), 'payload.self.list[0]: expected a JSON value, received a reference to what contains it'],
    ['more than 500 levels', nested(501), 'expected at most 500 levels of nesting, received more'],
  ])('refuses %s, with its path', (_, value, message) => {
    expect(() => encodeJson(value, 'payload')).toThrow(expect.objectContaining({ code: 'PAYLOAD_INVALID' }))
    expect(() => encodeJson(value, 'payload')).toThrow(message)
  })

  test('accepts 500 levels', () => {
    expect(encodeJson(nested(500), 'payload')).toHaveLength(1000)
  })

  test('names the place where reading a value fails, and keeps the cause', () => {
    const cause = new Error('not loaded')
    const lazy = {
      user: {
        get name(): string {
          throw cause
        },
      },
    }
    expect(() => encodeJson(lazy, 'messages[2].payload')).toThrow(
      expect.objectContaining({
        code: 'PAYLOAD_INVALID',
        message: 'messages[2].payload.user: expected a JSON value, but reading it failed',
        cause,
      }),
    )
  })

  test('refuses with the code it is given', () => {
    expect(() => encodeJson(1n, 'options.headers', 'OPTION_INVALID')).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})

function twice<T>(value: T): T[] {
  return [value, value]
}

function cycle(): object {
  const list: unknown[] = []
  const self = { list }
  list.push(self)
  return { self }
}

function nested(levels: number): unknown {
  let value: unknown[] = []
  for (let level = 1; level < levels; level++) value = [value]
  return value
}

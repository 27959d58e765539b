import { describe, expect } from 'vitest'
import { deadLetter, type Message, retryLater } from '../../../src/message.ts'
import { createSluice } from '../../../src/sluice.ts'
import { runDue } from '../../../src/testing.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { bury, register } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

describe('what a handler throws', () => {
  const thrown: readonly (readonly [string, () => unknown, string])[] = [
    ['NUL', () => new Error('a\0b'), 'Error: a\uFFFDb'],
    ['a lone surrogate', () => new Error('a\uD800b'), 'Error: a\uFFFDb'],
    ['a pair split by the limit', () => `${'x'.repeat(3_999)}😀`, `${'x'.repeat(3_999)}\uFFFD`],
    ['40 MB', () => new Error('x'.repeat(40_000_000)), `Error: ${'x'.repeat(3_993)}`],
    ['quotes and backslashes', () => new Error(`'"\\{}NULL,$1`), `Error: '"\\{}NULL,$1`],
    ['undefined', () => undefined, 'undefined'],
    ['null', () => null, 'null'],
    ['a symbol', () => Symbol('why'), 'Symbol(why)'],
    ['a BigInt', () => 10n, '10n'],
    ['an object without prototype', () => Object.create(null), 'an object'],
    ['an object whose constructor throws', () => withGetter({}, 'constructor'), 'an error that cannot be read'],
    ['an error whose message throws', () => withGetter(new Error(''), 'message'), 'an error that cannot be read'],
    ['an error whose name throws', () => withGetter(new Error(''), 'name'), 'an error that cannot be read'],
    ['an error whose cause throws', () => withGetter(new Error('odd'), 'cause'), 'Error: odd'],
    [
      'an error whose message is a symbol',
      () => Object.assign(new Error(''), { message: Symbol('m') }),
      'Error: Symbol(m)',
    ],
    [
      'an error whose message is no text',
      () => Object.assign(new Error(''), { message: Object.create(null) }),
      'an error that cannot be read',
    ],
    ['a revoked proxy', () => revoked(), 'an error that cannot be read'],
    ['an aggregate of nothing', () => new AggregateError([]), 'AggregateError: '],
  ]

  test.for(thrown)('fails its message alone: %s', async ([, make, text], { database, sluice, queue }) => {
    const [id] = await put(sluice, queue, ['hostile', 'harmless'])
    const pipeline = sluice.pipeline(queue, LATER).handle(({ payload }) => {
      if (payload === 'hostile') throw make()
    })
    const kinds = (await runDue(pipeline)).map(({ outcome }) => outcome.kind)
    expect(kinds.sort()).toEqual(['ack', 'retryLater'])
    expect(await left(database, queue)).toEqual([{ id, attempt: 1, error: text }])
  })

  test.for(thrown)('fails its message alone in a batch: %s', async ([, make, text], { database, sluice, queue }) => {
    const [id] = await put(sluice, queue, ['hostile', 'harmless'])
    const pipeline = sluice.pipeline(queue, LATER).handleBatch((messages) => {
      if (messages.some(({ payload }) => payload === 'hostile')) throw make()
    })
    await runDue(pipeline)
    expect(await left(database, queue)).toEqual([{ id, attempt: 1, error: text }])
  })

  test.for(thrown)(
    'may be read by a retry policy that fails with it: %s',
    async ([, make, text], { database, sluice, queue }) => {
      const [id] = await put(sluice, queue, ['hostile', 'harmless'])
      const failing = { retry: (_: number, error: unknown) => raise(error) }
      const pipeline = sluice.pipeline(queue, failing).handle(({ payload }) => {
        if (payload === 'hostile') throw make()
      })
      await pipeline.runOnce()
      expect(await left(database, queue)).toEqual([{ id, attempt: 1, error: text }])
    },
  )

  test.for(thrown)(
    'may be what a retry policy and onError throw, which is written to a log: %s',
    async ([, make, text], { database, queue }) => {
      const lines: string[] = []
      const write = (line: string) => void lines.push(line)
      const sluice = startTestSluice(database, { log: { info: write, warn: write, error: write } })
      const [id] = await put(sluice, queue, ['hostile', 'harmless'])
      const failing = { retry: (_: number, error: unknown) => raise(error), onError: raise }
      const pipeline = sluice.pipeline(queue, failing).handle(({ payload }) => {
        if (payload === 'hostile') throw make()
      })
      await pipeline.runOnce()
      expect(await left(database, queue)).toEqual([{ id, attempt: 1, error: text }])
      for (const what of ['the retry policy failed', 'onError failed'])
        expect(lines.filter((line) => line.includes(what))).toHaveLength(1)
    },
  )

  test.for(thrown)(
    'ends the pipeline that onError stops for it, and a log says so: %s',
    async ([, make], { database, queue }) => {
      const lines: string[] = []
      const write = (line: string) => void lines.push(line)
      const sluice = startTestSluice(database, { log: { info: write, warn: write, error: write } })
      await put(sluice, queue, ['hostile'])
      const running = sluice
        .pipeline(queue, { ...LATER, onError: () => 'stop' })
        .handle(() => raise(make()))
        .start()
      await running.ended
      expect(lines.filter((line) => line.includes('was stopped by onError'))).toHaveLength(1)
    },
  )

  test('an error of another Sluice, even STOPPED, is an error like any other', async ({ database, sluice, queue }) => {
    const other = createSluice({ connection: database.url })
    await other.stop()
    const [id] = await put(sluice, queue, ['hostile', 'harmless'])
    const subscription = other
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    const stopped: unknown = await subscription.ended.catch((error: unknown) => error)
    expect(stopped).toMatchObject({ code: 'STOPPED' })
    const pipeline = sluice.pipeline(queue, LATER).handle(({ payload }) => {
      if (payload === 'hostile') throw stopped
    })
    await pipeline.runOnce()
    expect(await left(database, queue)).toMatchObject([{ id, attempt: 1 }])
  })
})

describe('an outcome', () => {
  test.for([
    ['NUL', 'a\0b', 'a\uFFFDb'],
    ['a lone surrogate', 'a\uDC00b', 'a\uFFFDb'],
    ['40 MB', 'x'.repeat(40_000_000), 'x'.repeat(4_000)],
    ['SQL', `'); DROP TABLE sluice.message; --`, `'); DROP TABLE sluice.message; --`],
    ['a terminal escape', '\u001b[2J\u009b31m', '\u001b[2J\u009b31m'],
    ['nothing', '', ''],
  ] as const)(
    'keeps its words, or what a string can hold of them: %s',
    async ([, text, stored], { database, sluice, queue }) => {
      const [dead, retried] = await put(sluice, queue, ['dead', 'retried', 'harmless'])
      await sluice
        .pipeline(queue, LATER)
        .handle(({ payload }) => {
          if (payload === 'dead') return deadLetter(text, text)
          return payload === 'retried' ? retryLater({ error: text }) : undefined
        })
        .runOnce()
      expect(await left(database, queue)).toEqual([{ id: retried, attempt: 1, error: stored }])
      expect(await database.sql('SELECT id, reason, error FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual(
        [{ id: dead, reason: stored.trim() === '' ? 'no reason given' : stored, error: stored }],
      )
    },
  )

  test.for<[string, unknown]>([
    ['a revoked proxy', revoked()],
    ['a kind that throws', withGetter({}, 'kind')],
    ['a then that throws', withGetter({}, 'then')],
    ['a reason that throws', withGetter({ kind: 'deadLetter' }, 'reason')],
    ['a time beyond all times', { kind: 'retryLater', afterMs: 1e300 }],
    ['a time that is no number', { kind: 'snooze', afterMs: Number.NaN }],
    ['a key of the prototype', { kind: 'constructor' }],
  ])('that is none fails its message alone: %s', async ([, outcome], { database, sluice, queue }) => {
    const [id] = await put(sluice, queue, ['hostile', 'harmless'])
    await sluice
      .pipeline(queue, LATER)
      .handle(({ payload }) => (payload === 'hostile' ? (outcome as undefined) : undefined))
      .runOnce()
    expect(await left(database, queue)).toMatchObject([{ id, attempt: 1 }])
  })
})

describe('a row that the constraints let in', () => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['with as many attempts as an integer holds', { attempt: '2147483647' }],
    ['enqueued in the year 9999', { enqueued_at: "'9999-12-31 23:59:59.999999+00'" }],
    ['enqueued in the year 1', { enqueued_at: "'0001-01-01 00:00:00+00'" }],
    ['due in the year 1', { due_at: "'0001-01-01 00:00:00+00'" }],
    ['due before 1970', { due_at: "'1969-07-20'" }],
    ['due in 1970', { due_at: "'epoch'" }],
    ['failed in the year 9999', { failed_at: "'9999-12-31 23:59:59.999999+00'", attempt: '1' }],
    ['of the id zero', { id: '0' }],
    ['of a negative id', { id: '-5' }],
    ['of the lowest id', { id: '-9223372036854775808' }],
    ['of the highest id', { id: '9223372036854775807' }],
    ['of the lowest id, with a key', { id: '-9223372036854775808', ordering_key: "'k'" }],
    ['of the highest id, with a key', { id: '9223372036854775807', ordering_key: "'k'" }],
    ['with a key of odd characters', { ordering_key: `E'\\u0001\\u001b[2J"\\\\{}\\u202e''$1'` }],
    ['with a key of the prototype', { ordering_key: "'__proto__'" }],
    ['with a type of odd characters', { type: `E'* ..\\n\\u0001"\\\\'` }],
    ['with a type of the prototype', { type: "'__proto__'" }],
    ['with the largest numbers', { schema_version: '2147483647', max_attempts: '2147483647' }],
    ['with odd headers', { headers: `'{"__proto__": {"a": 1}, "": null, "n": 1e400, "constructor": "\\u202e"}'` }],
    ['with a number beyond double', { payload: `'[1e400, -1e400, 1e-400, 12345678901234567890]'` }],
    ['with the largest number of numeric', { payload: `'1e131071'` }],
    ['nested 1,000 deep', { payload: `repeat('[', 1000)::text || repeat(']', 1000)` }],
    ['nested 5,000 deep', { payload: `repeat('{"a":', 5000) || '1' || repeat('}', 5000)` }],
    ['ten times as long as a payload may be', { payload: `'"' || repeat('x', 10485760) || '"'` }],
  ]

  test.for(rows)('is delivered as it is: %s', async ([, columns], { database, sluice, queue }) => {
    await put(sluice, queue, ['harmless'])
    const [row] = await insert(database, queue, columns)
    const seen: Message[] = []
    await runDue(sluice.pipeline(queue).handle((message) => void seen.push(message)))
    expect(seen).toHaveLength(2)
    const hostile = seen.find(({ payload }) => payload !== 'harmless')
    expect(hostile).toMatchObject({ id: row?.id, orderingKey: row?.key, type: row?.type })
    expect(sameJson(hostile?.payload, row?.payload ?? '')).toBe(true)
    expect(sameJson(hostile?.headers, row?.headers ?? '')).toBe(true)
    expect(await left(database, queue)).toEqual([])
  })

  test.for(rows)('may fail, die and be redriven: %s', async ([, columns], { database, sluice, queue }) => {
    await put(sluice, queue, ['harmless'])
    const [row] = await insert(database, queue, { max_attempts: '1', ...columns })
    const fail = ({ payload }: Message) => {
      if (payload !== 'harmless') throw new Error('failed on purpose')
    }
    await sluice
      .pipeline(queue, { ...LATER, maxAttempts: 1 })
      .handle(fail)
      .runOnce()
    const remaining = await left(database, queue)
    if (remaining.length > 0) expect(remaining).toMatchObject([{ id: row?.id }])
    else {
      expect(await database.sql('SELECT sluice.redrive($1)', [queue])).toEqual([{ redrive: '1' }])
      await sluice
        .pipeline(queue)
        .handle(() => undefined)
        .runOnce()
    }
    expect(
      await database.sql('SELECT count(*)::integer AS dead FROM sluice.dead_letters WHERE queue = $1', [queue]),
    ).toEqual([{ dead: 0 }])
  })

  test.for(rows)('is in its place in an ordered queue: %s', async ([, columns], { database, sluice, queue }) => {
    await put(sluice, queue, ['harmless'])
    await insert(database, queue, columns)
    const seen: Message[] = []
    await runDue(sluice.pipeline(queue, { ordered: true }).handle((message) => void seen.push(message)))
    expect(seen).toHaveLength(2)
    expect(await left(database, queue)).toEqual([])
  })
})

describe('a name of a worker', () => {
  test.for([
    ['quotes and backslashes', `it's "me" \\ {NULL} $1; --`],
    ['a terminal escape', '\u001b]0;owned\u0007\u202e'],
    ['255 bytes', 'ü'.repeat(127)],
  ])('is stored as it is: %s', async ([, name], { database }) => {
    const sluice = startTestSluice(database, { name })
    await sluice.start()
    expect(await database.sql('SELECT name FROM sluice.workers WHERE name = $1', [name])).toEqual([{ name }])
  })

  test.for<[string, unknown]>([
    ['NUL', 'a\0b'],
    ['a lone surrogate', 'a\uD800'],
    ['nothing', ''],
    ['256 bytes', 'ü'.repeat(128)],
    ['no text', 7],
  ])('is refused: %s', ([, name]) => {
    expect(() => createSluice({ connection: 'postgres://localhost/x', name: name as string })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})

test('the command line prints no control character and no change of direction that somebody stored', async ({
  database,
  queue,
}) => {
  const odd = '\u001b[2J\u001b]0;owned\u0007\u009b31m\u202eevil\u2066\r\b\u007f'
  await register(database, { name: odd, queues: [queue], alive: true })
  await register(database, { name: `dead ${odd}`, queues: [queue], alive: false, inHand: 1 })
  const [id = ''] = await bury(database, { queue, reason: odd, error: odd, type: odd })
  await insert(database, queue, {
    type: literal(odd),
    ordering_key: literal(odd),
    last_error: literal(odd),
    attempt: '1',
  })
  await insert(database, queue, { payload: `repeat('[', 5000) || repeat(']', 5000)` })
  await database.sql(
    `UPDATE sluice.dead_letter SET ordering_key = $2, payload = jsonb_build_object($2::text, $2::text), headers = payload, enqueued_at = 'infinity'
     WHERE queue = $1`,
    [queue, odd],
  )
  const commands: readonly (readonly [code: number, ...args: string[]])[] = [
    [0, 'status'],
    [0, 'status', '--json'],
    [0, 'peek', queue],
    [0, 'peek', queue, '--json'],
    [0, 'dead', 'list', queue],
    [0, 'dead', 'list', queue, '--json'],
    [0, 'dead', 'list', queue, '--reason', odd],
    [0, 'dead', 'get', queue, id],
    [0, 'dead', 'get', queue, id, '--json'],
    [0, 'dead', 'redrive', queue, '--type', odd, '--dry-run'],
    [2, 'peek', odd],
    [2, 'dead', 'get', queue, odd],
  ]
  for (const [code, ...args] of commands) {
    const { code: ended, stdout, stderr } = await runCli(args, { DATABASE_URL: database.url })
    expect(`${args.join(' ')}: ${ended} ${ended === code ? '' : stderr}`).toBe(`${args.join(' ')}: ${code} `)
    expect(`${stdout}${stderr}`, args.join(' ')).not.toMatch(/(?![\n\t])[\p{Cc}\u202A-\u202E\u2066-\u2069]/u)
  }
  const { stdout } = await runCli(['dead', 'get', queue, id, '--json'], { DATABASE_URL: database.url })
  expect(JSON.parse(stdout)).toMatchObject({ reason: odd, error: odd, type: odd, payload: { [odd]: odd } })
})

/** Inserts a row as SQL gives its columns, and returns what the server made of it. */
function insert(database: TestDatabase, queue: string, given: Readonly<Record<string, string>>) {
  const { payload = `'"hostile"'`, ...others } = given
  const columns = { queue: literal(queue), payload: `(${payload})::jsonb`, ...others }
  return database.sql<{ id: string; key: string | null; type: string | null; payload: string; headers: string }>(
    `INSERT INTO sluice.message (${Object.keys(columns).join()}) VALUES (${Object.values(columns).join()})
     RETURNING id::text AS id, ordering_key AS key, type, payload::text AS payload, headers::text AS headers`,
  )
}

function literal(text: string): string {
  return `U&'${[...text].map((character) => `\\+${character.codePointAt(0)!.toString(16).padStart(6, '0')}`).join('')}'`
}

function left(database: TestDatabase, queue: string) {
  return database.sql<{ id: string; attempt: number; error: string | null }>(
    'SELECT id, attempt, last_error AS error FROM sluice.messages WHERE queue = $1',
    [queue],
  )
}

/** Whether a value is what JSON says; without recursion, which 5,000 levels would end. */
function sameJson(value: unknown, json: string): boolean {
  const pairs: [unknown, unknown][] = [[value, JSON.parse(json)]]
  for (const [a, b] of pairs) {
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
      if (!Object.is(a, b)) return false
      continue
    }
    const keys = Reflect.ownKeys(a)
    if (keys.length !== Reflect.ownKeys(b).length) return false
    for (const key of keys) pairs.push([Reflect.get(a, key), Reflect.get(b, key)])
  }
  return true
}

function withGetter(object: object, key: string): object {
  return Object.defineProperty(object, key, {
    get: () => {
      throw new Error('a getter that throws')
    },
  })
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function raise(error: unknown): never {
  throw error
}

import fc from 'fast-check'
import { expect } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { deadLetter, type Message, retryLater } from '../../src/message.ts'
import { LastSequence } from '../support/models/last-sequence.ts'
import { test } from '../support/sluice.ts'

const RUNS = { numRuns: 200, interruptAfterTimeLimit: 20_000 }
const MIB = 1_048_576

const piece = fc.oneof(
  fc.constantFrom("'", '"', '\\', '\0', '\ud800', '\udc00', '\u001b[2J', '\u009b', '\u202e', '\n', '\u2028', '\ufeff'),
  fc.constantFrom("'); DROP TABLE sluice.message; --", '$1', '{NULL}', '\\u0000', '\\x00', '%s', '__proto__', 'toJSON'),
  fc.string({ unit: 'binary', maxLength: 5 }),
  fc.constantFrom('x'.repeat(254), '😀'.repeat(64), 'ü'.repeat(127)),
)
const text = fc.array(piece, { maxLength: 3 }).map((pieces) => pieces.join(''))
/**
 * Not with a backslash in front: after an object with the key "\\", JSON.parse of Node 24.21 takes the key "\n" of the next
 * for the same.
 */
const key = fc.oneof(
  text.filter((name) => !name.startsWith('\\')),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', ''),
)
const number = fc.oneof(fc.double(), fc.constantFrom(-0, 5e-324, 1.7976931348623157e308, 2 ** 53 + 2, 1e21))

const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(text, number, fc.constantFrom(null, true, false)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
  ),
}))
const nothingElse = { headers: undefined, orderingKey: undefined, type: undefined }
/** What no chance would find: the limits, exactly and one more, and what is no JSON at all. */
const EXTREMES = [
  ...[499, 500, 501, 1_000, 100_000].map(nested),
  ...[MIB - 2, MIB - 1].map((length) => 'x'.repeat(length)),
  'ü'.repeat(MIB / 2 - 1),
  `${'ü'.repeat(MIB / 2 - 1)}x`,
  ...[undefined, 1n, Symbol('s'), Number.NaN, Infinity, new Map(), () => 1, [undefined]],
].map((payload) => ({ payload, ...nothingElse }))

test('what is given to enqueue is delivered as JSON says, or refused before anything is written', async ({
  database,
  sluice,
  queue,
}) => {
  const given = fc.record({
    payload: value,
    headers: fc.option(fc.dictionary(key, value, { maxKeys: 3 }), { nil: undefined }),
    orderingKey: fc.option(text, { nil: undefined }),
    type: fc.option(text, { nil: undefined }),
  })
  await using last = new LastSequence()
  const run = last.of(async (messages: readonly Given[]) => {
    const client = await database.pool.connect()
    const accepted = new Map<string, Given>()
    try {
      await client.query('BEGIN')
      for (const { payload, ...options } of messages) {
        const answer = await sluice.enqueue(client, queue, payload, options as object).catch((error: unknown) => error)
        if (typeof answer === 'string') accepted.set(answer, { payload, ...options })
        else expect(codeOf(answer)).toMatch(/^(OPTION_INVALID|PAYLOAD_INVALID|PAYLOAD_TOO_LARGE)$/)
        expect(typeof answer === 'string', JSON.stringify(options)).toBe(isFit({ payload, ...options }))
      }
    } finally {
      await client.query('COMMIT')
      client.release()
    }
    const delivered = new Map<string, Message>()
    await sluice
      .pipeline(queue, { batchSize: 4 })
      .handle((message) => void delivered.set(message.id, message))
      .runOnce()
    expect([...delivered.keys()].sort()).toEqual([...accepted.keys()].sort())
    for (const [id, { payload, headers, orderingKey, type }] of accepted) {
      const message = delivered.get(id)
      expect(canonical(message?.payload)).toBe(canonical(viaJson(payload)))
      expect(canonical(message?.headers)).toBe(canonical(viaJson(headers ?? {})))
      expect(message).toMatchObject({ orderingKey: orderingKey ?? null, type: type ?? null })
    }
  })
  const property = fc.asyncProperty(fc.array(given, { minLength: 1, maxLength: 8 }), run)
  await fc.assert(property, { ...RUNS, examples: [[EXTREMES]] })
})

test('what handlers say of their failures is stored as a string can hold it, and harms no other message', async ({
  database,
  sluice,
  queue,
}) => {
  const said = fc.record({ how: fc.constantFrom('throw', 'retry', 'dead letter', 'ack'), words: text })
  const shapes = fc.record({ batch: fc.boolean(), ordered: fc.boolean() })
  await using last = new LastSequence()
  const property = fc.asyncProperty(
    fc.array(said, { minLength: 1, maxLength: 8 }),
    shapes,
    last.of(async (all: readonly Said[], { batch, ordered }: { batch: boolean; ordered: boolean }) => {
      await database.sql('DELETE FROM sluice.message; DELETE FROM sluice.dead_letter; DELETE FROM sluice.slot')
      const ids = await sluice.enqueueMany(
        sluice.ownTransaction,
        queue,
        all.map((_, at) => ({ payload: at, orderingKey: ordered ? `key.${at}` : undefined })),
      )
      const answer = ({ payload }: Message) => {
        const { how, words } = all[Number(payload)]!
        if (how === 'throw') throw words
        if (how === 'dead letter') return deadLetter(words, words)
        return how === 'retry' ? retryLater({ error: words, after: '1h' }) : undefined
      }
      const pipeline = sluice.pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
      await (batch ? pipeline.handleBatch((messages) => messages.map(answer)) : pipeline.handle(answer)).runOnce()
      const rows = await database.sql<{ id: string; error: string; reason: string | null }>(
        `SELECT id::text, last_error AS error, NULL AS reason FROM sluice.message WHERE queue = $1
       UNION ALL SELECT id::text, error, reason FROM sluice.dead_letter WHERE queue = $1 ORDER BY 1`,
        [queue],
      )
      const expected = all.flatMap(({ how, words }, at) => {
        const stored = words.replaceAll('\0', '\uFFFD').toWellFormed()
        const reason = how === 'dead letter' ? (stored.trim() === '' ? 'no reason given' : stored) : null
        return how === 'ack' ? [] : [{ id: ids[at]!, error: stored, reason }]
      })
      expect(rows).toEqual(expected.sort((a, b) => (a.id < b.id ? -1 : 1)))
    }),
  )
  await fc.assert(property, RUNS)
})

function codeOf(error: unknown): string {
  return isSluiceError(error) ? error.code : `no SluiceError: ${String(error)}`
}

interface Said {
  readonly how: string
  readonly words: string
}

interface Given {
  readonly payload: unknown
  readonly headers: unknown
  readonly orderingKey: string | undefined
  readonly type: string | undefined
}

/** What the documentation says may be enqueued. */
function isFit({ payload, headers, orderingKey, type }: Given): boolean {
  const shortTexts = [orderingKey, type].filter((short) => short !== undefined)
  const segments = type?.split('.') ?? []
  return (
    isStorable(payload, 0) &&
    Buffer.byteLength(JSON.stringify(payload)) <= MIB &&
    isStorable(headers ?? {}, 0) &&
    shortTexts.every((short) => isText(short) && Buffer.byteLength(short) >= 1 && Buffer.byteLength(short) <= 255) &&
    segments.every((segment) => segment !== '' && !/[\s*\p{Cc}]/u.test(segment))
  )
}

function isStorable(given: unknown, depth: number): boolean {
  if (typeof given === 'string') return isText(given)
  if (typeof given === 'number') return Number.isFinite(given)
  if (typeof given === 'boolean' || given === null) return true
  if (typeof given !== 'object' || depth >= 500 || given instanceof Map) return false
  return Object.entries(given).every(([name, member]) => isText(name) && isStorable(member, depth + 1))
}

function isText(given: string): boolean {
  return !given.includes('\0') && given.isWellFormed()
}

function nested(depth: number): unknown {
  let inner: unknown = 1
  for (let level = 0; level < depth; level++) inner = level % 2 === 0 ? [inner] : { a: inner }
  return inner
}

function viaJson(given: unknown): unknown {
  return JSON.parse(JSON.stringify(given))
}

/** One text for all orders of keys, which jsonb does not keep; with the keys of prototypes among them. */
function canonical(given: unknown): string {
  return JSON.stringify(given, (_, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))
      : member,
  )
}

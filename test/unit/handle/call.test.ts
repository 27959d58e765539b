import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { DeliveredMessage } from '../../../src/claim/delivered-message.ts'
import type { Attempt } from '../../../src/handle/attempt.ts'
import { type Called, CallFailed } from '../../../src/handle/call.ts'
import { Caller } from '../../../src/handle/caller.ts'
import { Deadlines } from '../../../src/handle/deadlines.ts'
import { HeardLater } from '../../../src/handle/heard.ts'
import type { RunContext } from '../../../src/handle/run-context.ts'
import { retryLater } from '../../../src/message.ts'
import { Meter } from '../../../src/statistics/meter.ts'
import { claimedRow } from '../../support/rows/claimed-row.ts'

/** What a handler runs in that sends nothing; it notes how it ended. */
class NothingSent implements Attempt {
  readonly ends: string[] = []
  readonly lost = undefined
  readonly busy = false
  readonly awaitsAnswer = false
  readonly committed = false
  readonly unfinished = false
  readonly unused: boolean

  constructor({ unused }: { readonly unused: boolean }) {
    this.unused = unused
  }

  context(): RunContext {
    return {} as RunContext
  }

  async finished(): Promise<void> {}

  close(): void {
    this.ends.push('closed')
  }

  async keep(): Promise<void> {
    this.ends.push('kept')
  }

  async undo(): Promise<void> {
    this.ends.push('undone')
  }
}

const MESSAGES = [new DeliveredMessage('mails', claimedRow({ id: '7' }))]

function call(handle: () => unknown, attempt: NothingSent) {
  const meter = new Meter()
  const consumption = { handler: { kind: 'each' as const, handle }, meter, plan: { timeoutMs: 60_000 } }
  const deadline = new Deadlines(60_000, 'handler').next()
  const caller = new Caller(consumption, { attempt: () => attempt, cancel: async () => undefined })
  const heard = new HeardLater<Called>()
  const atOnce = caller.call(MESSAGES, deadline, heard)
  return { atOnce, later: heard.result, end: () => deadline.end() }
}

describe('a handler that has sent nothing', () => {
  test('and answers at once costs no promise', () => {
    const attempt = new NothingSent({ unused: true })
    expect(call(() => undefined, attempt).atOnce).toEqual([{ kind: 'ack' }])
    expect(call(() => retryLater(), attempt).atOnce).toEqual([{ kind: 'retryLater' }])
    expect(attempt.ends).toEqual(['closed', 'closed'])
  })

  test('and returns a promise is awaited', async () => {
    const attempt = new NothingSent({ unused: true })
    const { atOnce, later, end } = call(async () => retryLater(), attempt)
    expect(atOnce).toBeUndefined()
    expect(await later).toEqual([{ kind: 'retryLater' }])
    expect(attempt.ends).toEqual(['closed'])
    end()
  })

  test.each<[string, (answer: (result: unknown) => void) => unknown]>([
    ['answers while it is asked', (answer) => answer(retryLater())],
    ['answers with a promise', (answer) => answer(Promise.resolve(retryLater()))],
    ['answers twice', (answer) => [answer(retryLater()), answer('done')]],
    ['throws after its answer', (answer) => raise(answer(retryLater()))],
  ])('and returns a thenable that %s is heard as a promise is: once, and later', async (_, then) => {
    const attempt = new NothingSent({ unused: true })
    const { atOnce, later, end } = call(() => ({ then }), attempt)
    expect([atOnce, attempt.ends]).toEqual([undefined, []])
    expect(await later).toEqual([{ kind: 'retryLater' }])
    expect(attempt.ends).toEqual(['closed'])
    end()
  })

  test.each([
    ['a promise with a then of its own', awaitable(Promise.resolve(retryLater()), raise)],
    [
      'a function that can be awaited',
      awaitable(
        () => 1,
        (answer) => answer(retryLater()),
      ),
    ],
  ])('and returns %s is heard as `await` would hear it', async (_, returned) => {
    const { atOnce, later, end } = call(() => returned, new NothingSent({ unused: true }))
    expect(atOnce).toBeUndefined()
    expect(await later).toEqual([{ kind: 'retryLater' }])
    end()
  })

  test.each([
    ['throws', () => Promise.reject(new Error('broken'))],
    ['returns what is no outcome', () => 'done'],
  ])('and %s has failed, and is undone', async (_, handle) => {
    const attempt = new NothingSent({ unused: true })
    const { later, end } = call(handle, attempt)
    expect(await later).toBeInstanceOf(CallFailed)
    expect(attempt.ends).toEqual(['closed', 'undone'])
    end()
  })
})

test('a handler that has ended in time is not late, however long its writes take to be kept', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const deadline = new Deadlines(100, 'handler').next()
  const { signal } = deadline.next()
  await deadline.await(Promise.resolve())
  await vi.advanceTimersByTimeAsync(1_000)
  expect([signal.aborted, vi.getTimerCount()]).toEqual([false, 0])
  const slow = deadline.await(new Promise(() => undefined))
  slow.catch(() => undefined)
  await vi.advanceTimersByTimeAsync(1_000)
  await expect(slow).rejects.toMatchObject({ code: 'HANDLER_TIMEOUT' })
})

describe('a handler that has sent something', () => {
  test('is kept if it returns nothing, without a promise of its own', async () => {
    const attempt = new NothingSent({ unused: false })
    expect(await call(() => undefined, attempt).later).toEqual([{ kind: 'ack' }])
    expect(attempt.ends).toEqual(['kept'])
  })

  test('is undone if it asks for a retry', async () => {
    const attempt = new NothingSent({ unused: false })
    expect(await call(() => retryLater(), attempt).later).toEqual([{ kind: 'retryLater' }])
    expect(attempt.ends).toEqual(['undone'])
  })
})

function awaitable(given: object, then: (answer: (of: unknown) => void) => unknown): object {
  Reflect.defineProperty(given, 'then', { value: then })
  return given
}

function raise(_: unknown): never {
  throw new Error('too late')
}

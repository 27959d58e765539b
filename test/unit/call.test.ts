import { describe, expect, test } from 'vitest'
import { DeliveredMessage } from '../../src/claim/delivered-message.ts'
import type { Attempt } from '../../src/handle/attempt.ts'
import { Caller, CallFailed } from '../../src/handle/call.ts'
import { Deadline } from '../../src/handle/deadline.ts'
import { SingleEnding } from '../../src/handle/ending.ts'
import type { RunContext } from '../../src/handle/run-context.ts'
import { retryLater } from '../../src/message.ts'
import { Meter } from '../../src/statistics/meter.ts'
import { claimedRow } from '../support/rows/claimed-row.ts'

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
  const deadline = new Deadline(60_000, 'handler', new SingleEnding())
  const caller = new Caller(consumption, { attempt: () => attempt, cancel: async () => undefined })
  const called = caller.call(MESSAGES, deadline)
  return { called, end: () => deadline.end() }
}

describe('a handler that has sent nothing', () => {
  test('and answers at once costs no promise', () => {
    const attempt = new NothingSent({ unused: true })
    expect(call(() => undefined, attempt).called).toEqual([{ kind: 'ack' }])
    expect(call(() => retryLater(), attempt).called).toEqual([{ kind: 'retry' }])
    expect(attempt.ends).toEqual(['closed', 'closed'])
  })

  test('and returns a promise is awaited', async () => {
    const attempt = new NothingSent({ unused: true })
    const { called, end } = call(async () => retryLater(), attempt)
    expect(called).toBeInstanceOf(Promise)
    expect(await called).toEqual([{ kind: 'retry' }])
    expect(attempt.ends).toEqual(['closed'])
    end()
  })

  test.each([
    ['throws', () => Promise.reject(new Error('broken'))],
    ['returns what is no outcome', () => 'done'],
  ])('and %s has failed, and is undone', async (_, handle) => {
    const attempt = new NothingSent({ unused: true })
    const { called, end } = call(handle, attempt)
    expect(await called).toBeInstanceOf(CallFailed)
    expect(attempt.ends).toEqual(['closed', 'undone'])
    end()
  })
})

describe('a handler that has sent something', () => {
  test('is kept if it returns nothing, without a promise of its own', async () => {
    const attempt = new NothingSent({ unused: false })
    expect(await call(() => undefined, attempt).called).toEqual([{ kind: 'ack' }])
    expect(attempt.ends).toEqual(['kept'])
  })

  test('is undone if it asks for a retry', async () => {
    const attempt = new NothingSent({ unused: false })
    expect(await call(() => retryLater(), attempt).called).toEqual([{ kind: 'retry' }])
    expect(attempt.ends).toEqual(['undone'])
  })
})

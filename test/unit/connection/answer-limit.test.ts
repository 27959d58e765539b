import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { AnswerLimit } from '../../../src/transaction/answer-limit.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'

describe('AnswerLimit', () => {
  let control: PlayedServer
  let connection: BatchConnection
  let answers: AnswerLimit

  beforeEach(() => {
    vi.useFakeTimers()
    control = new PlayedServer()
    // Never connected, so nothing that it sends is answered.
    connection = new BatchConnection(Object.assign(new pg.Client(), { release: () => undefined }))
    connection.client.connection.stream.on('error', () => undefined)
    answers = new AnswerLimit(connection, control, { claimMs: CLAIM_MS, serverMs: 30 * CLAIM_MS })
  })

  afterEach(() => {
    answers.stop()
    vi.useRealTimers()
  })

  function claim(): void {
    connection.execute({ name: 'claim', text: 'SELECT' }, []).catch(() => undefined)
  }

  async function later(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms)
    for (const asked of control.asked) asked.answer([{ busy: false }])
    await vi.advanceTimersByTimeAsync(0)
  }

  test('breaks a connection whose claim is not answered, and on which the server does not work', async () => {
    claim()
    await later(CLAIM_MS)
    expect({ asked: control.asked.length, broken: brokenOf(connection) }).toEqual({ asked: 1, broken: true })
  })

  test('leaves a connection alone that has not sent its claim yet', async () => {
    for (let check = 0; check < 5; check++) await later(CLAIM_MS)
    claim()
    await later(CLAIM_MS - 1)
    expect({ asked: control.asked.length, broken: brokenOf(connection) }).toEqual({ asked: 0, broken: false })
    for (let check = 0; check < 2; check++) await later(CLAIM_MS)
    expect(brokenOf(connection)).toBe(true)
  })
})

function brokenOf({ client }: BatchConnection): boolean {
  return Reflect.get(client.connection.stream, 'destroyed') === true
}

const CLAIM_MS = 1_000

import { describe, expect, onTestFinished, vi } from 'vitest'
import type { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'
import { retryLater } from '../../../src/message.ts'
import { Reaper } from '../../../src/services/reaper.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty, untilRecorded } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const CONTROL = 'sluice control'

/** A process that handles messages of one key two at a time, and whose control connection can break. */
async function startProcess(database: TestDatabase, queue: string) {
  const proxy = await startProxy(database.url)
  const sluice = startTestSluice(database, { directConnection: proxy.url })
  const log = new EventLog(sluice.events)
  const steps = new Steps()
  sluice.pipeline(queue, { ordered: true, batchSize: 2 }).handle(steps.handle).start()
  await log.first('worker.started')
  return { proxy, sluice, log, steps }
}

type Process = Awaited<ReturnType<typeof startProcess>>

async function loseControl({ proxy, log }: Process): Promise<void> {
  refuse(proxy)
  await log.first('connection.lost', ({ role }) => role === 'control')
}

function refuse(proxy: TcpProxy): void {
  proxy.refusing = true
  proxy.cut(CONTROL)
}

async function restore({ proxy, log }: Process): Promise<void> {
  proxy.heal()
  await log.first('connection.restored', ({ role }) => role === 'control')
}

/**
 * The first process has two messages of one key in hand and no control connection. Its batch commits the failure of the
 * first and leaves the second as it was, never begun, and its record stays. Returns the attempts of the second process.
 */
async function attemptsOfTheNext(database: TestDatabase, queue: string, losesControlToo: boolean) {
  const first = await startProcess(database, queue)
  await put(first.sluice, queue, ['fails', 'untouched'], { orderingKey: 'k' })
  const begun = await first.steps.next()
  await untilRecorded(database, queue, 2)
  const second = await startProcess(database, queue)
  if (losesControlToo) await loseControl(second)
  await loseControl(first)
  await waitFor(
    async () =>
      // The second process may have taken it for dead since.
      (await database.sql('SELECT FROM sluice.in_flight WHERE queue = $1 AND worker_alive', [queue])).length === 0,
    { what: 'the server to see the end of the control connection' },
  )
  if (losesControlToo) await restore(second)
  begun.end(retryLater({ after: 1 }))
  await second.steps.endNext()
  await second.steps.endNext()
  await untilEmpty(database, queue)
  expect(first.steps.payloads).toEqual(['fails'])
  expect(second.steps.payloads).toEqual(['fails', 'untouched'])
  await restore(first)
  return { second, attempts: second.steps.taken.map(({ message }) => message.attempt) }
}

describe('a worker that lives, and whose control connection is down', () => {
  test('P4: is not taken for dead by one that has just lost its own: what it leaves untouched has no attempt more', async ({
    database,
    queue,
  }) => {
    const { attempts, second } = await attemptsOfTheNext(database, queue, true)
    expect(attempts).toEqual([2, 1])
    expect(second.log.of('worker.crashed')).toEqual([])
  })

  test('P4: is taken for dead by one that has not: what it leaves untouched before it is back has an attempt more', async ({
    database,
    queue,
  }) => {
    const { attempts } = await attemptsOfTheNext(database, queue, false)
    // The first may have one more too: until its failure is committed, it is as it was claimed.
    expect(attempts[1]).toBe(2)
    expect(await database.sql('SELECT FROM sluice.crash WHERE queue = $1', [queue])).toEqual([])
  })
})

test('a reaper looks for nobody from the loss of its connection until six seconds after its return', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const server = new PlayedServer()
  const control = { execute: server.execute }
  const reaper = new Reaper({ control, workerId: () => 7, report: () => undefined })
  reaper.lost()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await reaper.runIfStale()).toBe(false)
  reaper.restored()
  await vi.advanceTimersByTimeAsync(5_900)
  expect(await reaper.runIfStale()).toBe(false)
  expect(server.asked).toEqual([])
  await vi.advanceTimersByTimeAsync(100)
  const done = reaper.runIfStale()
  ;(await server.next()).answer([{ id: 9, name: 'dead', messages: 1 }])
  expect(await done).toBe(true)
})

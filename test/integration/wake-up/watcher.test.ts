import { describe, expect } from 'vitest'
import { flagHolder, raisedFlag } from '../../support/rows/flag.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { test } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'
import { TestWakeUp } from '../../support/wake-up.ts'

describe('waking up', () => {
  test('a notification reaches its waiter once', async ({ database }) => {
    const wakeUp = await TestWakeUp.start(database)
    const [one, other] = [wakeUp.sleep('L1'), wakeUp.sleep('L1.other')]
    await raisedFlag(database, 'L1')
    await raisedFlag(database, 'L1.other')
    await waitFor(() => one.hints.length + other.hints.length === 2, { what: 'the look after the flag' })
    await database.sql(`SELECT sluice.enqueue('L1', '1'), sluice.enqueue('L1', '2')`)
    await waitFor(() => one.hints.includes('notification'), { what: 'the notification' })
    await wakeUp.listener.marker(database)
    expect([one.hints, other.hints]).toEqual([['check again', 'notification'], ['check again']])
  })

  test('two waiters of a process are both woken', async ({ database }) => {
    const wakeUp = await TestWakeUp.start(database)
    const sleepers = [wakeUp.sleep('L2'), wakeUp.sleep('L2')]
    await raisedFlag(database, 'L2')
    await database.sql(`SELECT sluice.enqueue('L2', '{}')`)
    await waitFor(() => sleepers.every(({ hints }) => hints.includes('notification')), { what: 'both' })
    expect(wakeUp.listener.notified.filter((queue) => queue === 'L2')).toHaveLength(1)
  })

  test('the waiters of two processes are both woken', async ({ database }) => {
    const processes = [await TestWakeUp.start(database), await TestWakeUp.start(database)]
    const sleepers = processes.map((wakeUp) => wakeUp.sleep('L3'))
    await raisedFlag(database, 'L3')
    await database.sql(`SELECT sluice.enqueue('L3', '{}')`)
    await waitFor(() => sleepers.every(({ hints }) => hints.includes('notification')), { what: 'both' })
  })

  test('a waiter that leaves, leaves nothing', async ({ database }) => {
    const wakeUp = await TestWakeUp.start(database)
    const sleeper = wakeUp.sleep('L4')
    await raisedFlag(database, 'L4')
    wakeUp.sleepers.detach(sleeper)
    await waitFor(async () => (await flagHolder(database, 'L4')) === undefined, { what: 'the flag to be lowered' })
    sleeper.hints.length = 0
    await database.sql(`NOTIFY sluice, 'L4'`)
    await wakeUp.listener.marker(database)
    expect({ queues: wakeUp.sleepers.queues, hints: sleeper.hints }).toEqual({ queues: [], hints: [] })
  })

  test('a lost listener listens again, and each queue looks once for what it missed', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const wakeUp = await TestWakeUp.start(database, proxy.url)
    const sleepers = [wakeUp.sleep('L5.a'), wakeUp.sleep('L5.b')]
    for (const { queue } of sleepers) await raisedFlag(database, queue)
    proxy.cut()
    await wakeUp.listener.up(2)
    for (const { queue } of sleepers) await raisedFlag(database, queue)
    for (const { hints } of sleepers) expect(hints.filter((hint) => hint === 'reconnect')).toHaveLength(1)
    expect(wakeUp.listener.kinds).toEqual(['connection.lost', 'connection.restored'])
    await database.sql(`SELECT sluice.enqueue('L5.b', '{}')`)
    await waitFor(() => sleepers[1]?.hints.includes('notification'), { what: 'a notification as before' })
  })

  test('nobody pays for notifications that do not arrive', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const wakeUp = await TestWakeUp.start(database, proxy.url)
    const sleeper = wakeUp.sleep('L5.c')
    await raisedFlag(database, 'L5.c')
    proxy.refusing = true
    proxy.cut()
    await waitFor(async () => (await flagHolder(database, 'L5.c')) === undefined, { what: 'the flag to be lowered' })
    wakeUp.sleepers.asleep(sleeper, null)
    proxy.heal()
    await raisedFlag(database, 'L5.c')
  })

  test('a stopped listener is heard of no more', async ({ database }) => {
    const wakeUp = await TestWakeUp.start(database)
    wakeUp.sleep('L6')
    await raisedFlag(database, 'L6')
    await wakeUp.listener.watcher.stop()
    expect(wakeUp.listener).toMatchObject({ downs: 1, watcher: { listening: false } })
    await waitFor(async () => (await flagHolder(database, 'L6')) === undefined, { what: 'the flag to be lowered' })
    await wakeUp.stop()
    await untilSessions(database, 'sluice listener', 0)
  })
})

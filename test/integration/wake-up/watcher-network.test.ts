import { describe, expect, onTestFinished } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { flagHolder } from '../../support/rows/flag.ts'
import { countSessions, endSessions, untilSessions } from '../../support/servers/sessions.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'
import { TestWatcher } from '../../support/wake-up.ts'

const LISTENER = 'sluice listener'

/** The numbers are those of pg-listen's known traps. */
describe('the listener', () => {
  test('keeps trying when the first connect fails, and reports it once', async ({ database }) => {
    const proxy = await startProxy(database.url)
    proxy.refusing = true
    const listener = new TestWatcher(proxy.url)
    listener.watcher.start()
    await waitFor(() => proxy.accepted >= 5, { what: 'five attempts' })
    expect(listener.kinds).toEqual(['connection.lost'])
    proxy.heal()
    await listener.up()
    expect(listener.kinds).toEqual(['connection.lost', 'connection.restored'])
  })

  test('comes back as often as it is lost, with one session', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const listener = new TestWatcher(proxy.url)
    await listener.up()
    const losses = [() => proxy.cut(), () => proxy.halfClose(), () => endSessions(database, LISTENER)]
    for (const [at, lose] of losses.entries()) {
      await lose()
      await listener.up(at + 2)
      await untilSessions(database, LISTENER, 1)
    }
    expect(listener.kinds).toEqual(losses.flatMap(() => ['connection.lost', 'connection.restored']))
    expect({ ups: listener.ups, downs: listener.downs, accepted: proxy.accepted }).toEqual({
      ups: 4,
      downs: 3,
      accepted: 4,
    })
  })

  test('leaves no session behind when it stops while it connects', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const listener = new TestWatcher(proxy.url, { connectTimeoutMs: 60_000 })
    await listener.up()
    proxy.delayMs = () => 30
    proxy.cut()
    await waitFor(() => proxy.accepted === 2, { what: 'the second connection' })
    await listener.watcher.stop()
    await untilSessions(database, LISTENER, 0)
    expect({ accepted: proxy.accepted, kinds: listener.kinds }).toEqual({ accepted: 2, kinds: ['connection.lost'] })
  })

  test('does not try again after it was stopped between two attempts', async ({ database }) => {
    const proxy = await startProxy(database.url)
    proxy.refusing = true
    const listener = new TestWatcher(proxy.url)
    listener.watcher.start()
    await waitFor(() => proxy.accepted >= 4, { what: 'four attempts' })
    await listener.watcher.stop()
    proxy.heal()
    const { accepted } = proxy
    expect({ accepted: proxy.accepted, sessions: await countSessions(database, LISTENER) }).toEqual({
      accepted,
      sessions: 0,
    })
  })

  test('finds a half-open connection, and leaves the black hole by and by', async ({ database }) => {
    const proxy = await startProxy(database.url)
    const listener = new TestWatcher(proxy.url)
    await listener.up()
    proxy.blackHole()
    await waitFor(() => proxy.accepted >= 3, { what: 'two attempts in the black hole' })
    expect(listener.events).toEqual([
      {
        kind: 'connection.lost',
        role: 'listener',
        error: expect.objectContaining({ message: expect.stringContaining('1500 ms') }),
      },
    ])
    proxy.heal()
    await listener.up(2)
    expect(listener.kinds).toEqual(['connection.lost', 'connection.restored'])
  })

  test.for([
    { state: 'listens', listens: true },
    { state: 'connects', listens: false },
  ])('stops soon in a black hole while it $state', async ({ listens }, { database }) => {
    const proxy = await startProxy(database.url)
    const listener = new TestWatcher(proxy.url, { connectTimeoutMs: 60_000, heartbeatMs: 60_000, answerMs: 60_000 })
    if (listens) await listener.up()
    proxy.blackHole()
    listener.watcher.start()
    await waitFor(() => proxy.accepted === 1, { what: 'the connection' })
    const started = performance.now()
    await listener.watcher.stop()
    expect(performance.now() - started).toBeLessThan(30_000)
  })

  test('says once that notifications do not arrive, as through a transaction pooler', async ({ database }) => {
    const proxy = await startProxy(database.url)
    proxy.passes = ({ type }) => type !== NOTIFICATION
    const listener = new TestWatcher(proxy.url, { answerMs: 1_000 })
    listener.watcher.start()
    await waitFor(() => proxy.accepted >= 3, { what: 'three attempts' })
    expect(listener.kinds).toEqual(['listener.unavailable'])
    expect(listener).toMatchObject({ ups: 0, downs: 0, watcher: { listening: false } })
    proxy.passes = () => true
    await listener.up()
    expect(listener.kinds).toEqual(['listener.unavailable', 'connection.restored'])
  })

  test('goes on by polling, and asks nobody to notify', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    proxy.passes = ({ type }) => type !== NOTIFICATION
    const sluice = startTestSluice(database, { directConnection: proxy.url, pollInterval: 100 })
    const log = new EventLog(sluice.events)
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await log.first('listener.unavailable')
    for (const payload of [1, 2, 3]) {
      await put(sluice, queue, [payload])
      const step = await steps.next()
      expect({ payload: step.payload, holder: await flagHolder(database, queue) }).toEqual({
        payload,
        holder: undefined,
      })
      step.end()
    }
    expect(log.of('listener.unavailable')).toHaveLength(1)
  })

  test('takes no harm from payloads of others', async ({ database }) => {
    const listener = new TestWatcher(database.url)
    await listener.up()
    const odd = [
      '',
      '!',
      '!!',
      '!x!q',
      '!7!ours',
      '!8!theirs',
      '!99999999999999999999!q',
      '{"a":1}',
      '__proto__',
      'Straße\n',
      'x'.repeat(7_999),
    ]
    for (const payload of odd) await database.sql('SELECT pg_notify($1, $2)', ['sluice', payload])
    await database.sql(`SELECT pg_notify('other', 'elsewhere')`)
    await listener.marker(database)
    const heard = ['theirs', 'q', '{"a":1}', '__proto__', 'Straße\n', 'x'.repeat(7_999), '(marker)']
    expect({ notified: listener.notified, events: listener.events }).toEqual({ notified: heard, events: [] })
  })

  test('listens in the end when the connection breaks while it registers', async ({ database }) => {
    const proxy = await startProxy(database.url)
    let breaks = 3
    proxy.passes = ({ type, bytes }) => {
      if (type === COMMAND_COMPLETE && bytes.includes('LISTEN') && breaks-- > 0) proxy.cut()
      return true
    }
    const listener = new TestWatcher(proxy.url, { heartbeatMs: 60_000 })
    await listener.up()
    expect({ accepted: proxy.accepted, kinds: listener.kinds }).toEqual({
      accepted: 4,
      kinds: ['connection.lost', 'connection.restored'],
    })
    await listener.marker(database)
  })

  test('gives the driver no reason for a warning', async ({ database }) => {
    const warnings: Error[] = []
    const collect = (warning: Error) => warnings.push(warning)
    process.on('warning', collect)
    onTestFinished(() => void process.off('warning', collect))
    const proxy = await startProxy(database.url)
    const listener = new TestWatcher(proxy.url, { heartbeatMs: 10 })
    await listener.up()
    proxy.cut()
    await listener.up(2)
    await waitFor(
      () => proxy.statements.filter(({ text }) => /^(UN)?LISTEN sluice_heartbeat/.test(text)).length >= 10,
      {
        what: 'heartbeats',
      },
    )
    await listener.watcher.stop()
    expect(warnings).toEqual([])
  })
})

const NOTIFICATION = 'A'
const COMMAND_COMPLETE = 'C'

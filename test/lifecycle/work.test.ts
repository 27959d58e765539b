import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { spawnCli } from '../support/processes/run-cli.ts'
import { HANDLERS, test } from '../support/processes/work.ts'
import { payloadsOf, untilEmpty } from '../support/rows/rows.ts'
import { createTestDatabase, type TestDatabase } from '../support/servers/database.ts'
import { put } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const WORKER = join(HANDLERS, 'worker.ts')
const GROUP = join(HANDLERS, 'group.ts')
const RELAY = join(HANDLERS, 'relay.ts')

const effects = (database: TestDatabase) => database.sql<{ id: string }>('SELECT message_id AS id FROM effect')
const attempts = (database: TestDatabase) => database.sql('SELECT attempt FROM sluice.message')
const evidence = (database: TestDatabase) => database.sql('SELECT * FROM sluice.crash')

describe.concurrent('sluice work', () => {
  test('handles messages in both modes until SIGTERM, lets handlers end, and exits with 0', async ({
    own,
    sluice,
    start,
  }) => {
    const { child, exited, says } = start(WORKER)
    const [, slow] = await put(sluice, 'jobs', [{}, { ms: 300 }])
    const [leased] = await put(sluice, 'more', [{ ms: 300 }])
    await Promise.all([says(`handles ${slow}`), says(`handles ${leased}`)])
    child.kill('SIGTERM')
    await says('SIGTERM: stops claiming, and waits up to 30s')
    expect(await exited).toBe(0)
    await says(/jobs: 2 acked, 0 retried/)
    await says(/more: 1 acked, 0 retried/)
    expect(await effects(own)).toHaveLength(3)
    expect(await sluice.operate.workers.list()).toEqual([])
    expect(await evidence(own)).toEqual([])
  })

  test('reads streams for groups beside queues, until SIGTERM and with --once', async ({ own, sluice, start }) => {
    await sluice.streams.set('orders')
    await sluice.groups.set('orders', 'billing', { from: 'start' })
    const { child, exited, says } = start(GROUP)
    await Promise.all([says('jobs: started in transactional mode'), says('orders:billing: started in')])
    const orders = [1, 2, 3].map((id) => ({ payload: { id } }))
    await sluice.appendMany(sluice.ownTransaction, 'orders', orders)
    for (const id of [1, 2, 3]) await says(`billed ${id}`)
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
    await says(/orders:billing: 3 acked, 1 retried/)
    await sluice.append(sluice.ownTransaction, 'orders', { id: 4 })
    const run = start(GROUP, '--once', '--queue', 'orders:billing')
    expect(await run.exited).toBe(0)
    expect((await effects(own)).map(({ id }) => Number(id)).toSorted()).toEqual([1, 2, 3, 4])
    const wrong = start(GROUP, '--mode', 'leased')
    expect(await wrong.exited).toBe(2)
    await wrong.says('--mode: expected group, the mode of the module\'s handler of "orders:billing"')
  })

  test('gives back at a second signal what is in hand, counts nothing, and exits with 3', async ({
    own,
    sluice,
    start,
  }) => {
    const { child, exited, says } = start(WORKER)
    const [id] = await put(sluice, 'jobs', [{ ms: 60_000 }])
    const [leased] = await put(sluice, 'more', [{ ms: 60_000 }])
    await Promise.all([says(`handles ${id}`), says(`handles ${leased}`)])
    child.kill('SIGINT')
    await says('SIGINT: stops claiming')
    child.kill('SIGTERM')
    await says('SIGTERM: gives back')
    expect(await exited).toBe(3)
    expect(await attempts(own)).toEqual([{ attempt: 0 }, { attempt: 0 }])
    expect(await effects(own)).toEqual([])
    expect(await evidence(own)).toEqual([])
    expect(await sluice.operate.queues.list()).toMatchObject([
      { queue: 'jobs', ready: 1, inFlight: 0 },
      { queue: 'more', ready: 1, inFlight: 0 },
    ])
  })

  test('gives back what has not ended when the time for that is up, and exits with 3', async ({
    own,
    sluice,
    start,
  }) => {
    const { child, exited, says } = start(WORKER, '--queue', 'jobs', '--drain-timeout', '100ms')
    const [id] = await put(sluice, 'jobs', [{ ms: 60_000 }])
    await says(`handles ${id}`)
    child.kill('SIGTERM')
    expect(await exited).toBe(3)
    expect(await attempts(own)).toEqual([{ attempt: 0 }])
  })

  test('with --once handles what is due, and what its handlers enqueue, and exits with 0', async ({
    own,
    sluice,
    start,
  }) => {
    await put(sluice, 'jobs', [{ next: 'more' }, { next: 'more' }, { fail: true }])
    await put(sluice, 'jobs', [{}], { delay: '1h' })
    const { exited, says } = start(WORKER, '--once', '--concurrency', '2')
    expect(await exited).toBe(0)
    await says(/jobs: 2 acked, 1 retried, 0 snoozed, 0 dead/)
    await says(/more: 2 acked/)
    expect(await payloadsOf(own, 'jobs')).toHaveLength(2)
  })

  test('with --once says how many due messages a pause and a limit have left', async ({ own, sluice }) => {
    await put(sluice, 'jobs', [{}, {}])
    await put(sluice, 'more', [{}, {}, {}])
    await sluice.operate.queues.pause('jobs')
    await sluice.operate.queues.settings.set('more', { rate: { limit: 1, per: '1h' } })
    const { code, stderr } = await spawnCli(['work', WORKER, '--once'], { DATABASE_URL: own.url })
    expect(code).toBe(0)
    expect(stderr).toContain('jobs: 2 due messages left: the queue is paused')
    expect(stderr).toContain('more: 2 due messages left: the limits of the queue')
  })

  test('with --once says how many due messages a relay has left whose destination is out of reach', async ({
    own,
    sluice,
  }) => {
    await put(sluice, 'jobs', [{}, {}])
    const { code, stderr } = await spawnCli(['work', RELAY, '--once'], { DATABASE_URL: own.url })
    expect(code).toBe(0)
    expect(stderr).toContain('jobs: 2 due messages left: the destination of its relay is unavailable')
  })

  test('with --once says how many events a group has left that is paused, or has stopped', async ({ own, sluice }) => {
    const pass = () => spawnCli(['work', GROUP, '--once', '--queue', 'orders:billing'], { DATABASE_URL: own.url })
    await sluice.streams.set('orders', { partitions: 1 })
    await sluice.groups.set('orders', 'billing', { from: 'start', onFailure: 'stop' })
    await sluice.appendMany(
      sluice.ownTransaction,
      'orders',
      [1, 0, 3].map((id) => ({ payload: { id } })),
    )
    await sluice.operate.groups.pause('orders', 'billing')
    expect((await pass()).stderr).toContain('orders:billing: 3 events left: the group is paused')
    await sluice.operate.groups.resume('orders', 'billing')
    expect(await pass()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(
        'orders:billing: 2 events left: 1 partition stopped, see: sluice group list orders',
      ),
    })
  })

  test('with --once ends at a signal with the batch in hand', async ({ own, sluice, start }) => {
    const ids = await put(sluice, 'jobs', [{ ms: 200 }, {}, {}])
    const { child, exited, says } = start(WORKER, '--once', '--batch-size', '1')
    await says(`handles ${ids[0]}`)
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
    expect((await effects(own)).map(({ id }) => String(id))).toContain(ids[0])
  })

  test('runs the one handler of a CommonJS module for the queues that are named, in any of both modes', async ({
    own,
    sluice,
    start,
  }) => {
    for (const queue of ['a', 'b', 'c']) await put(sluice, queue, [1])
    const { child, exited, says } = start(join(HANDLERS, 'one.cjs'), '-q', 'a,b', '-q', 'c', '-c', '4')
    await says(/c: started in transactional mode, concurrency 4, batch size 10/)
    for (const queue of ['a', 'b', 'c']) await untilEmpty(own, queue)
    child.kill('SIGINT')
    expect(await exited).toBe(0)
  })

  test('ends at a signal also while its module has not loaded', async ({ start }) => {
    const { child, exited, says } = start(join(HANDLERS, 'hangs.mjs'), '-q', 'a')
    await says(/loading/)
    // What a program for `node` does at its top.
    await says('hangs.mjs is still loading. An await at its top .* run it with `node .*hangs.mjs`')
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
  })

  test('answers probes: not ready before it is connected, ready, and no longer when it drains', async ({
    sluice,
    start,
  }) => {
    const port = await freePort()
    const { child, exited, says } = start(WORKER, '--health', `127.0.0.1:${port}`)
    await says(`on port ${port}`)
    const probe = (path: string) => fetch(`http://127.0.0.1:${port}${path}`)
    expect((await probe('/healthz')).status).toBe(200)
    await waitFor(async () => (await probe('/readyz')).status === 200, { what: 'a worker that is ready' })
    expect((await probe('/livez')).status).toBe(200)
    expect(await (await probe('/readyz')).json()).toMatchObject({ live: true, ready: true, status: 'running' })
    expect((await probe('/other')).status).toBe(404)
    const [id] = await put(sluice, 'jobs', [{}, { ms: 500 }])
    await says(`handles ${id}`)
    await waitFor(async () => ((await (await probe('/healthz')).json()) as { queues: object }).queues, {
      what: 'queues',
    })
    const metrics = await probe('/metrics')
    expect(metrics.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(await metrics.text()).toContain('sluice_messages_settled_total{queue="jobs",outcome="acked"}')
    await put(sluice, 'more', [{ ms: 500 }])
    child.kill('SIGTERM')
    await says('SIGTERM')
    const draining = await probe('/readyz').catch(() => undefined)
    if (draining !== undefined) {
      expect(draining.status).toBe(503)
      expect(await draining.json()).toMatchObject({ status: 'draining' })
    }
    expect(await exited).toBe(0)
  })

  test('has its messages back at once when it is killed, and counts the crash', async ({ own, sluice, start }) => {
    const killed = start(WORKER, '--queue', 'jobs', '--name', 'killed')
    const [id] = await put(sluice, 'jobs', [{ ms: 60_000 }])
    await killed.says(`handles ${id}`)
    killed.child.kill('SIGKILL')
    await killed.exited
    const [message] = await waitFor(
      async () => {
        const found = await own.sql('SELECT id FROM sluice.message FOR UPDATE SKIP LOCKED')
        return found.length > 0 && found
      },
      { what: 'the message that is free' },
    )
    expect(message).toEqual({ id })
  })
})

describe.concurrent('sluice work that cannot run', () => {
  test.for([
    [['nowhere.ts'], 2, 'expected a module of handlers, received no such file'],
    [[join(HANDLERS, 'broken.mjs')], 1, 'this module does not load'],
    [[join(HANDLERS, 'misnamed.mjs')], 2, 'expected an export default or worker, received handlers'],
    [[join(HANDLERS, 'one.cjs')], 2, 'Name the queues that it handles: --queue emails'],
    [
      [join(HANDLERS, 'own.ts'), '--database-url', 'postgres://x'],
      2,
      '--database-url: expected only for a module without',
    ],
    [[join(HANDLERS, 'own.ts'), '--name', 'mine'], 2, 'Leave it out, and give createSluice({ name }) in the module'],
    [[WORKER, '--queue', 'orders'], 2, '--queue: expected one of jobs, more, received "orders"'],
    [[WORKER, '--queue', 'more', '--mode', 'transactional'], 2, '--mode: expected leased'],
    [[WORKER, '--mode', 'fast'], 2, 'Allowed choices are transactional, leased'],
    [[WORKER, '--health', '99999'], 2, 'Expected a port'],
    [[WORKER, '--concurrency', '0'], 2, 'Expected an integer from 1'],
    [[], 2, "missing required argument 'module'"],
  ] as const)('says so: %j', async ([args, code, words], { database }) => {
    const result = await spawnCli(['work', ...args], { DATABASE_URL: database.url })
    expect(result).toMatchObject({ code, stderr: expect.stringContaining(words) })
  })

  test.for([
    ['worker.mjs', "import '@nats-io/jetstream'", 'npm install @nats-io/transport-node @nats-io/jetstream'],
    ['worker.cjs', "require('amqplib')", 'npm install amqplib'],
  ] as const)(
    'names the package that is missing, and how to install it: %s',
    async ([name, text, words], { database }) => {
      const folder = await temporaryFolder('sluice-work-')
      try {
        const module = join(folder, name)
        await writeFile(module, text)
        const result = await spawnCli(['work', module], { DATABASE_URL: database.url })
        expect(result).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(`not installed here. Install it: ${words}\n`),
        })
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )

  test('says who cannot listen where a port is taken, with exit code 1', async ({ database }) => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const result = await spawnCli(['work', WORKER, '--health', `127.0.0.1:${port}`], { DATABASE_URL: database.url })
    taken.close()
    const words = `--health 127.0.0.1:${port}: cannot listen: listen EADDRINUSE`
    expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining(words) })
  })

  test('without a schema names the command to run, with exit code 1', async () => {
    await using database = await createTestDatabase({ migrated: false })
    for (const more of [[], ['--once']])
      expect(await spawnCli(['work', WORKER, ...more], { DATABASE_URL: database.url })).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('npx sluice migrate'),
      })
  })
})

import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { StandbyPair } from '../../faults/environment/standby-pair.ts'
import { executeOn } from '../../src/connection/open-client.ts'
import { createSluice, type Sluice } from '../../src/sluice.ts'
import { newWorkerId, recordBatches, registerWorker } from '../../src/table/worker/worker.ts'
import { EventLog } from '../support/event-log.ts'
import { startStandbyPair } from '../support/servers/standby-pair.ts'
import { deferred, waitFor } from '../support/wait.ts'

const QUEUE = 'q'
const KEYS = 4

interface Numbered {
  readonly n: number
}

/** A worker of the pair, whose poll comes too late to help anybody. */
function startSluice(pair: StandbyPair): Sluice {
  const sluice = createSluice({ connection: pair.url, pollInterval: 60_000 })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  return sluice
}

/** Leaves the numbers of messages in a table, in the order in which they are handled. */
function consume(sluice: Sluice, before: (n: number) => Promise<void> = async () => undefined): void {
  const handle = async (n: number, query: (text: string, values: unknown[]) => Promise<unknown>) => {
    await before(n)
    await query('INSERT INTO effect (n) VALUES ($1)', [n])
  }
  sluice
    .pipeline(QUEUE, { batchSize: 3 })
    .handle(({ payload }, { tx }) => handle((payload as Numbered).n, (text, values) => tx.query(text, values)))
    .subscribe()
}

async function createEffects(pair: StandbyPair): Promise<void> {
  await pair.primary.sql('CREATE TABLE effect (at bigserial, n integer NOT NULL)')
}

/** The numbers that have an effect, in the order in which they came by it. */
async function effectsOf(pair: StandbyPair): Promise<readonly number[]> {
  const rows = await pair.primary.sql<{ n: number }>('SELECT n FROM effect ORDER BY at')
  return rows.map(({ n }) => n)
}

async function untilEmpty(pair: StandbyPair): Promise<void> {
  const isEmpty = async () => (await pair.primary.sql('SELECT FROM sluice.message')).length === 0
  await waitFor(isEmpty, { what: 'the queue to be empty' })
}

/** Enqueues numbered messages one after another, and knows of which it was told that they are committed. */
class Producer {
  readonly acknowledged = new Map<number, string>()
  readonly #sluice: Sluice
  #n = 0

  constructor(pair: StandbyPair) {
    this.#sluice = startSluice(pair)
  }

  /** Goes on, whatever fails, until so many more have been acknowledged. */
  async acknowledge(more: number): Promise<void> {
    const enough = this.acknowledged.size + more
    while (this.acknowledged.size < enough) {
      const n = this.#n++
      const options = n % 2 === 0 ? {} : { orderingKey: `key ${n % KEYS}` }
      try {
        this.acknowledged.set(n, await this.#sluice.enqueue(this.#sluice.ownTransaction, QUEUE, { n }, options))
      } catch {
        await pause(1)
      }
    }
  }

  /** The acknowledged numbers without an effect. */
  async lost(pair: StandbyPair): Promise<readonly number[]> {
    const effects = new Set(await effectsOf(pair))
    return [...this.acknowledged.keys()].filter((n) => !effects.has(n))
  }
}

/** A worker that dies with its server, with a message in hand. Resolves with its number. */
async function startGhost(pair: StandbyPair, messageId: string): Promise<number> {
  const execute = executeOn(await connect(pair))
  const id = await newWorkerId(execute)
  await registerWorker(execute, id, { name: 'ghost', host: 'here', pid: 1, version: '0' }, [QUEUE], false)
  await recordBatches(execute, id, [], [{ id: 1, queue: QUEUE, messageIds: [messageId], attempts: [0] }])
  return id
}

describe('when a synchronous standby takes over', () => {
  test.for([{ address: 'after' }, { address: 'before' }] as const)(
    'P1, P4: all that was acknowledged takes effect once, without a restart, if the address moves $address that',
    async ({ address }) => {
      const pair = await startStandbyPair()
      await createEffects(pair)
      const [first, second] = [startSluice(pair), startSluice(pair)]
      const log = new EventLog(first.events)
      for (const sluice of [first, second]) consume(sluice)
      const producer = new Producer(pair)
      await producer.acknowledge(25)
      const ghost = await startGhost(pair, producer.acknowledged.get(0)!)

      const readOnly = () =>
        Promise.all([
          log.first('claim.failed', ({ error }) => /read-only/.test(`${error.message}`)),
          log.first('connection.lost', ({ role, error }) => role === 'control' && /read-only/.test(error.message)),
        ])
      const producing = producer.acknowledge(50)
      await pair.failOver(address === 'before' ? { whileReadOnly: readOnly } : {})
      await producing
      await producer.acknowledge(25)
      await untilEmpty(pair)

      const effects = await effectsOf(pair)
      expect(await producer.lost(pair)).toEqual([])
      expect(effects).toHaveLength(new Set(effects).size)
      for (const key of [1, 3]) {
        const ofKey = effects.filter((n) => n % KEYS === key)
        expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b))
      }
      const ids = [...producer.acknowledged.values()].map(Number)
      expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b))

      // Nobody is blamed, and the dead worker is off the books, at the latest when there is work again.
      const isGone = async () => {
        await producer.acknowledge(1)
        return (await pair.primary.sql('SELECT FROM sluice.worker WHERE id = $1', [ghost])).length === 0
      }
      await waitFor(isGone, { what: 'the dead worker to be noticed' })
      expect(await pair.primary.sql('SELECT * FROM sluice.crash')).toEqual([])
      const both = async () => {
        const here = await pair.primary.sql(
          `SELECT FROM sluice.workers JOIN sluice.worker USING (id) WHERE alive AND server_started_at = pg_postmaster_start_time()`,
        )
        return here.length === 2
      }
      await waitFor(both, { what: 'both workers to be registered with the new primary' })
      expect(await pair.primary.sql('SELECT FROM sluice.workers')).toHaveLength(2)
    },
  )

  test('P5: idle workers are woken as before, and tell what they have in hand', async () => {
    const pair = await startStandbyPair()
    await createEffects(pair)
    const go = deferred()
    const sluice = startSluice(pair)
    const log = new EventLog(sluice.events)
    consume(sluice, (n) => (n === 1 ? go.promise : Promise.resolve()))
    await log.first('pipeline.started')
    const isHeld = async () =>
      (await pair.primary.sql(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 746501 AND granted`))
        .length > 0
    // Without a listener there is none to restore, and no flag.
    await waitFor(isHeld, { what: 'the waiting flag' })
    await pair.failOver()
    for (const role of ['control', 'listener']) await log.first('connection.restored', (event) => event.role === role)
    await waitFor(isHeld, { what: 'the waiting flag after the failover' })
    await sluice.enqueue(sluice.ownTransaction, QUEUE, { n: 1 })
    const inHand = () => pair.primary.sql('SELECT queue, attempt, worker_alive FROM sluice.in_flight')
    await waitFor(async () => (await inHand()).length > 0, { what: 'the message to be in hand' })
    expect(await inHand()).toEqual([{ queue: QUEUE, attempt: 1, worker_alive: true }])
    go.resolve()
    await untilEmpty(pair)
    expect(await effectsOf(pair)).toEqual([1])
  })

  test('a slot whose row it has not got is made again, so no key stops', async () => {
    const pair = await startStandbyPair()
    await createEffects(pair)
    const sluice = startSluice(pair)
    const log = new EventLog(sluice.events)
    sluice
      .pipeline('another')
      .handle(() => undefined)
      .subscribe()
    await log.first('pipeline.started')
    await sluice.enqueue(sluice.ownTransaction, QUEUE, { n: 1 }, { orderingKey: 'a' })
    // The standby does not hear of the row any more; neither is the batch that needs it ever acknowledged.
    pair.freezeReplication()
    const handling = deferred()
    consume(sluice, async () => handling.resolve())
    await handling.promise
    await pair.failOver()
    await untilEmpty(pair)
    expect(await effectsOf(pair)).toEqual([1])
  })
})

describe('when an asynchronous standby takes over', () => {
  test('P1: what was acknowledged is lost where the standby did not have it, and its ids are given to others', async () => {
    const pair = await startStandbyPair({ synchronous: false })
    await createEffects(pair)
    const producer = new Producer(pair)
    await producer.acknowledge(20)
    await pair.caughtUp()
    pair.freezeReplication()
    await producer.acknowledge(50)
    await pair.failOver()
    const ids = [...producer.acknowledged.values()]
    await producer.acknowledge(50)
    consume(startSluice(pair))
    await untilEmpty(pair)

    expect(await producer.lost(pair)).toEqual(Array.from({ length: 50 }, (_, i) => 20 + i))
    const again = [...producer.acknowledged.values()].slice(70)
    expect(again.filter((id) => ids.includes(id)).length).toBeGreaterThan(0)
  })

  test('a key whose settlements are lost begins again at its first message', async () => {
    const pair = await startStandbyPair({ synchronous: false })
    await createEffects(pair)
    const sluice = startSluice(pair)
    const enqueue = (from: number, to: number) =>
      sluice.enqueueMany(
        sluice.ownTransaction,
        QUEUE,
        Array.from({ length: to - from }, (_, i) => ({ payload: { n: from + i }, orderingKey: 'a' })),
      )
    const [open, reached, last] = [deferred(), deferred(), deferred()]
    const seen: number[] = []
    consume(sluice, async (n) => {
      seen.push(n)
      if (n === 1) await open.promise
      if (n === 25) {
        reached.resolve()
        await last.promise
      }
    })
    await enqueue(0, 30)
    // The standby has the slot's row and all messages, of which the first have not been handled.
    await waitFor(() => seen.includes(1), { what: 'the first message' })
    await pair.caughtUp()
    pair.freezeReplication()
    open.resolve()
    await reached.promise
    await pair.failOver()
    last.resolve()
    await untilEmpty(pair)
    expect(await effectsOf(pair)).toEqual(Array.from({ length: 30 }, (_, n) => n))
    expect(seen.filter((n) => n === 0)).toHaveLength(2)
  })
})

describe('pg_xact_status on the new primary', () => {
  test('tells the truth of what the standby had, and not of what was lost', async () => {
    const pair = await startStandbyPair()
    await pair.primary.sql('CREATE TABLE mark (name text)')
    const replicated = await begin(pair, 'replicated')
    await replicated.client.query('COMMIT')
    const open = await begin(pair, 'open')
    // What the open transaction has written goes to the standby with a commit behind it.
    await pair.primary.sql(`INSERT INTO mark VALUES ('behind')`)
    pair.freezeReplication()
    const lost = await Promise.all(['a', 'b', 'c'].map((name) => begin(pair, name)))
    const commits = lost.map(({ client }) =>
      client.query('COMMIT').then(
        () => 'acknowledged',
        () => 'no answer',
      ),
    )
    const cancelled = await commitCancelled(pair)
    await pair.failOver()
    expect(await Promise.all(commits)).toEqual(['no answer', 'no answer', 'no answer'])
    expect(cancelled).toEqual({ command: 'COMMIT', warned: true })

    expect(await statusOf(pair, replicated.xid)).toBe('committed')
    expect(await statusOf(pair, open.xid)).toBe('aborted')
    for (const { xid } of lost) expect(await statusOf(pair, xid)).toBe('22023')

    // Their numbers are given to others.
    for (let i = 0; i < 5; i++) await pair.primary.sql(`INSERT INTO mark VALUES ('new')`)
    for (const { xid } of lost) expect(await statusOf(pair, xid)).toBe('committed')
    const names = await pair.primary.sql<{ name: string }>('SELECT DISTINCT name FROM mark ORDER BY name')
    expect(names.map(({ name }) => name)).toEqual(['behind', 'new', 'replicated'])
  })
})

/** A transaction that has written, and its number. */
async function begin(pair: StandbyPair, name: string): Promise<{ readonly client: pg.Client; readonly xid: string }> {
  const client = await connect(pair)
  await client.query('BEGIN')
  await client.query('INSERT INTO mark VALUES ($1)', [name])
  const { rows } = await client.query<{ xid: string }>('SELECT pg_current_xact_id()::text AS xid')
  return { client, xid: rows[0]!.xid }
}

/** Commits, and has the wait for the standby cancelled, which does not cancel the transaction. */
async function commitCancelled(pair: StandbyPair): Promise<{ readonly command: string; readonly warned: boolean }> {
  const { client } = await begin(pair, 'cancelled')
  let warned = false
  client.on('notice', ({ message }) => {
    warned ||= /canceling wait for synchronous replication/.test(`${message}`)
  })
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const committing = client.query('COMMIT')
  const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'`
  await waitFor(async () => (await pair.primary.sql(cancel, [rows[0]!.pid])).length > 0, { what: 'the wait to cancel' })
  const { command } = await committing
  return { command, warned }
}

async function connect(pair: StandbyPair): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: pair.url })
  client.on('error', () => undefined)
  onTestFinished(() => client.end().catch(() => undefined))
  await client.connect()
  return client
}

/** What the server says of a transaction: its state, or the code of an error. */
async function statusOf(pair: StandbyPair, xid: string): Promise<string | null> {
  try {
    const [row] = await pair.primary.sql<{ status: string | null }>('SELECT pg_xact_status($1::xid8) AS status', [xid])
    return row!.status
  } catch (error) {
    if (error instanceof pg.DatabaseError) return error.code ?? null
    throw error
  }
}

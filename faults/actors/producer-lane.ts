import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import type { Sluice } from '../../src/index.ts'
import { bookingsOf, type Fate } from '../ledger.ts'
import { Random } from '../random.ts'
import { LaneEndpoints } from './lane-endpoints.ts'
import { LedgerWriter } from './ledger-writer.ts'
import type { ProducerSetup } from './producer-process.ts'

/** What a lane wants to enqueue in one transaction. */
interface Intent {
  readonly name: string
  readonly messages: readonly Planned[]
  readonly openMs: number
  readonly rollsBack: boolean
}

interface Planned {
  readonly orderingKey: string | undefined
  readonly fate: Fate
  readonly delayMs: number
  readonly dedupeKey: string | undefined
}

/** How a try ended, as far as the lane can tell. */
interface Told {
  readonly outcome: 'committed' | 'rolled back' | 'refused' | 'lost'
  readonly ambiguous: boolean
  readonly detail?: string
}

interface Try {
  /** From 1. */
  readonly attempt: number
  readonly ids: string[]
  xid: string | undefined
  committing: boolean
}

/** One transaction after another, on one connection, as an application would. */
export class ProducerLane {
  readonly #setup: ProducerSetup
  readonly #name: string
  readonly #sluice: Sluice
  readonly #random: Random
  readonly #ledger: LedgerWriter
  /** Where its messages go, if they are webhooks. */
  readonly #endpoints: LaneEndpoints | undefined
  #client: pg.Client | undefined
  #intents = 0
  #place = 0

  constructor(setup: ProducerSetup, at: number, sluice: Sluice) {
    this.#setup = setup
    this.#name = `${setup.seed}.${at}`
    this.#sluice = sluice
    this.#random = new Random(setup.seed * 31 + at)
    this.#ledger = new LedgerWriter(setup.ledgerUrl)
    const { outside, queue } = setup
    if (outside?.kind !== 'endpoints') return
    this.#endpoints = new LaneEndpoints({ sluice, queue, host: outside.host, lane: this.#name })
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const intent = this.#plan()
      // An intent whose transaction was lost is tried again, as an application would, until it is known how it ended.
      for (let attempt = 1; !signal.aborted && (await this.#try(intent, attempt)) === 'lost'; attempt++);
      await pause(this.#random.next() * this.#setup.load.pauseMs)
    }
    await this.#client?.end().catch(() => undefined)
    await this.#ledger.end()
  }

  #plan(): Intent {
    const { load } = this.#setup
    const random = this.#random
    this.#intents += 1
    const dedupeKey = random.chance(load.deduped) ? `${Math.floor(Date.now() / 3_000)}` : undefined
    // One in a transaction: two lanes that take two keys in different orders wait for each other.
    const messages = Array.from({ length: 1 + random.below(3) }, (_, at) =>
      this.#planMessage(at === 0 ? dedupeKey : undefined),
    )
    return {
      name: `${this.#name}.${this.#intents}`,
      messages,
      openMs: random.chance(load.long) ? random.next() * load.longMs : 0,
      rollsBack: random.chance(load.rollbacks),
    }
  }

  #planMessage(dedupeKey: string | undefined): Planned {
    const { load } = this.#setup
    const random = this.#random
    const roll = random.next()
    const orderingKey = load.keys > 0 && random.chance(0.5) ? `${this.#name}.${random.below(load.keys)}` : undefined
    return {
      orderingKey,
      fate: roll < load.failing ? 'fail' : roll < load.failing + load.dying ? 'die' : 'ack',
      delayMs: orderingKey === undefined && random.chance(load.delayed) ? random.below(load.delayMs) : 0,
      dedupeKey,
    }
  }

  async #try(intent: Intent, attempt: number): Promise<Told['outcome']> {
    const trying: Try = { attempt, ids: [], xid: undefined, committing: false }
    const told = await this.#transact(intent, trying).catch((error: unknown) => this.#judge(error, intent, trying))
    await this.#ledger.write(
      'INSERT INTO ledger.told (intent, attempt, message_ids, outcome, ambiguous, detail) VALUES ($1, $2, $3::bigint[], $4, $5, $6)',
      [intent.name, attempt, trying.ids, told.outcome, told.ambiguous, told.detail],
    )
    return told.outcome
  }

  async #transact(intent: Intent, trying: Try): Promise<Told> {
    const client = await this.#connected()
    const begun = await client.query('BEGIN; SELECT pg_current_xact_id()::text AS xid')
    const [, { rows }] = begun as unknown as [unknown, pg.QueryResult<{ xid: string }>]
    trying.xid = rows[0]?.xid
    await this.#enqueue(client, intent, trying)
    if (intent.openMs > 0) await pause(intent.openMs)
    if (intent.rollsBack) {
      await client.query('ROLLBACK')
      return { outcome: 'rolled back', ambiguous: false }
    }
    trying.committing = true
    const { command } = await client.query('COMMIT')
    return { outcome: command === 'COMMIT' ? 'committed' : 'rolled back', ambiguous: false }
  }

  async #enqueue(client: pg.Client, intent: Intent, trying: Try): Promise<void> {
    for (const planned of intent.messages) {
      const id = await (this.#setup.load.swallows
        ? this.#enqueueOrNot(client, planned)
        : this.#enqueueOne(client, planned, intent))
      if (id === undefined) continue
      if (this.#setup.load.apart) await client.query('COMMIT; BEGIN')
      const { orderingKey, fate, delayMs, dedupeKey } = planned
      for (const { of, bookedId } of bookingsOf(id, this.#setup.load.appends)) {
        trying.ids.push(bookedId)
        const key = orderingKey && orderingKey + of
        await client.query(
          'INSERT INTO ledger.enqueued (message_id, intent, attempt, ordering_key, place, fate, failures, delay_ms, dedupe_key) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)',
          [bookedId, intent.name, trying.attempt, key, ++this.#place, fate, failuresOf(fate), delayMs, dedupeKey],
        )
        if (this.#setup.load.traced) await client.query(BOOK_TRACE, [this.#setup.queue, bookedId])
      }
    }
  }

  /** Its id, or the position of an event. Undefined: another message has its dedupe key, or its endpoint is deleted. */
  async #enqueueOne(client: pg.Client, planned: Planned, intent?: Intent): Promise<string | undefined> {
    const { orderingKey, fate, delayMs, dedupeKey } = planned
    const { queue, load } = this.#setup
    const payload = { fate, failures: failuresOf(fate) }
    if (this.#endpoints !== undefined) return this.#endpoints.send(client, payload, orderingKey)
    if (load.appends) {
      const key = orderingKey === undefined ? {} : { orderingKey }
      return String(await this.#sluice.append(client, queue, payload, key))
    }
    const options = {
      ...(orderingKey === undefined ? {} : { orderingKey }),
      ...(fate === 'die' ? { maxAttempts: 2 } : {}),
      ...(delayMs > 0 ? { delay: delayMs } : {}),
    }
    if (dedupeKey === undefined) return this.#sluice.enqueue(client, queue, payload, options)
    const dedupe = { key: dedupeKey, for: '1h' } as const
    const { id, outcome } = await this.#sluice.enqueue(client, queue, payload, { ...options, dedupe })
    if (outcome === 'added') return id
    await client.query('INSERT INTO ledger.duplicate (message_id, intent, dedupe_key) VALUES ($1, $2, $3)', [
      id,
      intent?.name,
      dedupeKey,
    ])
    return undefined
  }

  /** The message's id, or one that no message has. */
  async #enqueueOrNot(client: pg.Client, planned: Planned): Promise<string | undefined> {
    await client.query('SAVEPOINT message')
    try {
      return await this.#enqueueOne(client, planned)
    } catch {
      await client.query('ROLLBACK TO message')
      return `${-this.#place}`
    }
  }

  /** What an error means: the server's refusal is an answer; without COMMIT there is no commit; else somebody must know. */
  async #judge(error: unknown, intent: Intent, trying: Try): Promise<Told> {
    const detail = error instanceof Error ? error.message : String(error)
    await this.#disconnect()
    const cause = error instanceof Error && error.cause instanceof pg.DatabaseError ? error.cause : error
    const refused = cause instanceof pg.DatabaseError && cause.severity === 'ERROR'
    if (refused && !INTERVENTION.test(cause.code ?? '')) return { outcome: 'refused', ambiguous: false, detail }
    if (!trying.committing) {
      await pause(50)
      return { outcome: 'lost', ambiguous: false, detail }
    }
    const outcome = (await this.#committed(intent, trying)) ? 'committed' : 'lost'
    return { outcome, ambiguous: true, detail }
  }

  async #committed(intent: Intent, trying: Try): Promise<boolean> {
    const { asks } = this.#setup.load
    if (asks === 'nobody') return false
    if (asks === 'row') return this.#rowIsThere(intent, trying)
    for (;;) {
      const [row] = await this.#ledger.read('SELECT pg_xact_status($1::xid8) AS status', [trying.xid])
      if (row?.status !== 'in progress') return row?.status === 'committed'
      await pause(20)
    }
  }

  /** A row that is not there may still come, for as long as its transaction is in progress: its lock says so. */
  async #rowIsThere(intent: Intent, trying: Try): Promise<boolean> {
    const inProgress = `SELECT FROM pg_locks WHERE locktype = 'transactionid' AND transactionid = $1::xid8::xid`
    while ((await this.#ledger.read(inProgress, [trying.xid])).length > 0) await pause(20)
    const itsRow = 'SELECT FROM ledger.enqueued WHERE intent = $1 AND attempt = $2'
    return (await this.#ledger.read(itsRow, [intent.name, trying.attempt])).length > 0
  }

  async #connected(): Promise<pg.Client> {
    if (this.#client !== undefined) return this.#client
    const client = new pg.Client({
      connectionString: this.#setup.url,
      application_name: 'producer',
      connectionTimeoutMillis: 5_000,
      // A half-open connection is noticed, as an application should.
      query_timeout: this.#setup.load.enqueueTimeoutMs ?? 5_000,
    })
    client.on('error', () => undefined)
    client.once('end', () => {
      if (this.#client === client) this.#client = undefined
    })
    await client.connect()
    this.#client = client
    return client
  }

  async #disconnect(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    client?.connection.stream.destroy()
  }
}

const BOOK_TRACE = `
UPDATE ledger.enqueued q SET trace = substring(m.headers ->> 'traceparent' FROM 4 FOR 32)
FROM sluice.message m WHERE m.queue = $1 AND m.id = $2 AND q.message_id = m.id`

function failuresOf(fate: Fate): number {
  return fate === 'fail' ? 1 : 0
}

/** Somebody ended or cancelled it, or there was no room: to be tried again. */
const INTERVENTION = /^(57|53)/

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { queryAsText } from '../../src/session/own-parsers.ts'
import { nameOf } from '../../src/session/statement-names.ts'
import { type ClaimedRows, claim } from '../../src/table/claim/claim.ts'
import { leaseOf } from '../../src/table/claim/lease.ts'
import { type LeasedId, leased } from '../../src/table/settle/fence.ts'
import { ackRows } from '../../src/table/settle/settle.ts'
import type { Execute } from '../../src/table/statement.ts'
import type { Consumer, Contestant, LeaseSpec, Payload } from '../contestant.ts'
import { messageTable, withoutTrigger } from './message-table.ts'

/**
 * What a user could write by hand with the statements of leased mode: a connection that claims as soon as there is room, and
 * one that settles all that has ended since its last statement. No retries, no renewals, no wake-up, no order.
 */
export const leasedLoop: Contestant = {
  name: 'leased-loop',
  title: 'By hand, leased',
  guarantee: 'The claim commits before the handler runs: if the process dies, its messages wait until their leases end',
  ...messageTable,
  setUp: withoutTrigger,
  leases: {
    configuration:
      'pg with pipeline: true and kept plans; the claim that leases and records, not flushed, on one connection, and the ' +
      'deletion under the lease, flushed, of up to 500 messages on another; each one statement under way at a time',
    run: async (url, spec) => LeasedLoop.start(url, spec),
  },
}

const WORKER_ID = 2 ** 31 - 1
const DEFAULT_LEASE_MS = 300_000
const MOST_SETTLED = 500
const IDLE_MS = 10

class LeasedLoop implements Consumer {
  readonly #spec: LeaseSpec
  readonly #claims: pg.Client
  readonly #settles: pg.Client
  readonly #stopping = new AbortController()
  readonly #ended: LeasedId[] = []
  #inHand = 0
  #version = 0
  #settling: Promise<void> | undefined
  #changed = Promise.withResolvers<void>()
  #claiming = Promise.resolve()

  private constructor(url: string, spec: LeaseSpec) {
    const planned = `${url}?options=-c%20plan_cache_mode%3Dforce_generic_plan`
    this.#spec = spec
    this.#claims = new pg.Client({ connectionString: `${planned}%20-c%20synchronous_commit%3Doff`, pipeline: true })
    this.#settles = new pg.Client({ connectionString: planned, pipeline: true })
  }

  static async start(url: string, spec: LeaseSpec): Promise<LeasedLoop> {
    const loop = new LeasedLoop(url, spec)
    await loop.#start()
    return loop
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#claiming
    while (this.#inHand > 0) await this.#changed.promise
    await Promise.all([this.#claims.end(), this.#settles.end()])
  }

  async #start(): Promise<void> {
    await Promise.all([this.#claims.connect(), this.#settles.connect()])
    const version = `SELECT current_setting('server_version_num')::integer AS version`
    const { rows } = await this.#claims.query<{ version: number }>(version)
    this.#version = rows[0]?.version ?? 0
    this.#claiming = this.#claimAll()
  }

  async #claimAll(): Promise<void> {
    const { batchSize, inHand, leaseMs } = this.#spec
    const floor = { priority: 5, dueUs: 0, id: '0' }
    for (let batchId = 1; !this.#stopping.signal.aborted; batchId++) {
      const room = inHand - this.#inHand
      if (room === 0) {
        await this.#changed.promise
        continue
      }
      const lease = leaseOf(WORKER_ID, batchId)
      const terms = { lease, ms: leaseMs ?? DEFAULT_LEASE_MS, serverVersion: this.#version }
      const { rows } = await claim(preparedOn(this.#claims), 'bench', [floor], Math.min(room, batchSize), terms)
      this.#inHand += rows.length
      for (const row of rows) void this.#handle(row, lease)
      const last = rows.at(-1)
      if (last === undefined) await sleep(IDLE_MS)
      else Object.assign(floor, { dueUs: last.dueUs, id: last.id })
    }
  }

  async #handle({ id, payload }: ClaimedRows['rows'][number], lease: string): Promise<void> {
    await this.#spec.handle?.(JSON.parse(payload) as Payload)
    this.#ended.push({ id, lease })
    this.#settleSoon()
  }

  #settleSoon(): void {
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined
      // A handler may have ended between the last look and here.
      if (this.#ended.length > 0) this.#settleSoon()
    })
  }

  async #settleAll(): Promise<void> {
    await Promise.resolve()
    while (this.#ended.length > 0) {
      const ended = this.#ended.splice(0, MOST_SETTLED)
      const settled = await ackRows(
        preparedOn(this.#settles),
        { queue: 'bench', fence: leased(ended), serverVersion: this.#version },
        ended.map(({ id }) => id),
      )
      this.#inHand -= ended.length
      this.#spec.onSettled(settled.length)
      this.#changed.resolve()
      this.#changed = Promise.withResolvers()
    }
  }
}

/** By name: without one the server parses and plans a statement each time, and keeps nothing. */
function preparedOn(client: pg.Client): Execute {
  return async (statement, params) => {
    const query = { name: nameOf(statement), text: statement.text, values: [...params] }
    return (await queryAsText(client, query)).rows
  }
}

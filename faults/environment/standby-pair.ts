import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Environment } from '../run/environment.ts'
import { until } from '../run/until.ts'
import { EmbeddedServer } from './embedded-server.ts'
import { TcpRelay } from './tcp-relay.ts'

export interface StandbyPairOptions {
  /** Whether COMMIT waits until the standby has it. Without, what was acknowledged can be lost. @default true */
  readonly synchronous?: boolean
  /** How far away the standby is, there and back. @default 0 */
  readonly distanceMs?: number
}

export interface FailOverOptions {
  /** Clients come to the standby, which is read-only yet, and it takes over when this has resolved. */
  readonly whileReadOnly?: () => Promise<unknown>
}

/** A primary that streams to a hot standby, and an address of whichever is the primary. */
export class StandbyPair {
  /** The primary's address, the same before and after a fail-over. */
  readonly url: string
  readonly #address: TcpRelay
  readonly #link: TcpRelay
  readonly #servers: readonly [first: EmbeddedServer, second: EmbeddedServer]
  readonly #resources: AsyncDisposableStack
  #failedOver = false
  #frozen = false

  private constructor(
    servers: readonly [EmbeddedServer, EmbeddedServer],
    address: TcpRelay,
    link: TcpRelay,
    resources: AsyncDisposableStack,
  ) {
    const url = new URL(servers[0].url)
    url.port = `${address.port}`
    this.url = url.href
    this.#servers = servers
    this.#address = address
    this.#link = link
    this.#resources = resources
  }

  /** Resolves when the standby follows. */
  static async start({ synchronous = true, distanceMs = 0 }: StandbyPairOptions = {}): Promise<StandbyPair> {
    await using resources = new AsyncDisposableStack()
    const address = resources.adopt(await TcpRelay.start(), (relay) => relay.stop())
    const link = resources.adopt(await TcpRelay.start(), (relay) => relay.stop())
    const remove = (server: EmbeddedServer) => server.remove()
    const names = synchronous ? { synchronous_standby_names: STANDBY } : {}
    const first = resources.adopt(await EmbeddedServer.create({ ...STREAMING, ...names }), remove)
    const follow = { ...STREAMING, primary_conninfo: connectionInfo(first.url, link.port) }
    const second = resources.adopt(await first.copy(follow), remove)
    await writeFile(join(second.folder, 'standby.signal'), '')
    await first.start()
    address.pointTo(first.port)
    link.pointTo(first.port)
    await second.start()
    await until(() => isFollowed(first, synchronous ? 'sync' : 'async'), 'the standby to follow', PATIENCE_MS)
    link.delayMs = distanceMs
    return new StandbyPair([first, second], address, link, resources.move())
  }

  /** The server that takes writes. */
  get primary(): EmbeddedServer {
    return this.#servers[this.#failedOver ? 1 : 0]
  }

  /** The server that follows, until the fail-over. */
  get standby(): EmbeddedServer {
    return this.#servers[1]
  }

  /** Resolves when the standby shows what the primary has committed so far. */
  async caughtUp(): Promise<void> {
    // Only what is flushed is sent, and this commit flushes all before it.
    await this.primary.sql(`SELECT pg_logical_emit_message(true, 'caught up', '')`)
    const [now] = await this.primary.sql<{ lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn')
    const replayed = async () => {
      const [row] = await this.standby.sql<{ done: boolean }>('SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done', [
        now!.lsn,
      ])
      return row!.done
    }
    await until(replayed, 'the standby to catch up', PATIENCE_MS)
  }

  /** From here on the standby gets nothing: COMMIT hangs, or, if it does not wait for the standby, may be lost. */
  freezeReplication(): void {
    this.#frozen = true
    this.#link.freeze()
  }

  thawReplication(): void {
    this.#frozen = false
    this.#link.thaw()
  }

  /** Kills the primary without warning, and makes the standby the primary. Resolves when that takes writes. */
  async failOver({ whileReadOnly }: FailOverOptions = {}): Promise<void> {
    this.#address.pointTo(undefined)
    await this.primary.kill()
    this.#address.cut()
    // What has reached the link is on its way to the standby, unless it is frozen: then it is lost.
    if (this.#frozen) this.#link.cut()
    this.#link.pointTo(undefined)
    if (whileReadOnly !== undefined) {
      this.#address.pointTo(this.standby.port)
      await whileReadOnly()
    }
    await this.standby.sql('SELECT pg_promote()')
    this.#failedOver = true
    this.#address.pointTo(this.standby.port)
  }

  /** Ends both servers and deletes their data. */
  async stop(): Promise<void> {
    await this.#resources.disposeAsync()
  }
}

/** Where a scenario has a pair for itself. */
export interface StandbyPairEnvironment extends Environment {
  readonly pair: StandbyPair
}

/** The books wait for the standby also where nobody else does, so what was told of a commit outlives it. */
export async function standbyPairEnvironment(): Promise<StandbyPairEnvironment> {
  const pair = await StandbyPair.start()
  const ledgerUrl = new URL(pair.url)
  ledgerUrl.searchParams.set('options', '-c synchronous_commit=on')
  return { pair, url: pair.url, ledgerUrl: ledgerUrl.href, stop: () => pair.stop() }
}

const STANDBY = 'standby'
const PATIENCE_MS = 20_000

/** A frozen link is not a broken one. PostgreSQL 14 may promote only after the interval in which it asks for log. */
const STREAMING = {
  wal_level: 'replica',
  wal_keep_size: '64MB',
  wal_sender_timeout: 0,
  wal_receiver_timeout: 0,
  wal_retrieve_retry_interval: '100ms',
}

function connectionInfo(url: string, port: number): string {
  const { username, password } = new URL(url)
  return `host=127.0.0.1 port=${port} user=${username} password=${password} application_name=${STANDBY}`
}

async function isFollowed(primary: EmbeddedServer, how: 'sync' | 'async'): Promise<boolean> {
  const rows = await primary.sql(`SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = $1`, [how])
  return rows.length > 0
}

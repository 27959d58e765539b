import { execFile } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EmbeddedServer } from '../environment/embedded-server.ts'
import type { OwnServer } from '../environment/own-server.ts'
import { SmallDisk } from '../environment/small-disk.ts'
import { connect } from '../run/environment.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { GIVES_UP, type Twin } from '../twins/twins.ts'
import { untilRefused, untilUp } from './until-refused.ts'

interface OnSmallDisk extends OwnServer {
  readonly disk: SmallDisk
}

const MEGABYTES = 24

const SWALLOWS_ITS_FAILURE = {
  name: 'swallows-its-failure',
  title: 'a producer that goes on without the message when an enqueue fails, and commits',
  load: { swallows: true },
  caught: ['lost'],
} as const satisfies Twin

/** How many transactions are refused before there is room again. */
const REFUSED = 10

/** Sluice's tables are on the full disk, and the log is not: what needs a new page fails, and the server goes on. */
export const diskFull = scenario<OnSmallDisk>({
  name: 'disk-full',
  title: "no space left on the disk of Sluice's tables (a tablespace), until enqueues fail, then room again",
  recoveryMs: 3_000,
  flow: 60,
  injections: { quick: 2, full: 10 },
  environment: () => onSmallDisk(async () => undefined),
  // A lease is a new version of its row, which needs space too.
  otherwise: { recoveryMs: LEASE_MS + 3_000, costsAttempts: true, injections: { quick: 1, full: 10 } },
  // A batch of events inserts its progress, which needs space too, and the third loss in a row of one event costs an attempt.
  stream: { costsAttempts: true, injections: { quick: 1, full: 10 }, twin: SWALLOWS_ITS_FAILURE },
  twin: SWALLOWS_ITS_FAILURE,
  prepare: moveTables,
  async inject(stage) {
    const { disk } = stage.environment
    const before = await refused(stage)
    await stage.fault('no space for tables', async () => {
      await disk.fill()
      const enough = async () => (await refused(stage)) >= before + REFUSED
      await until(enough, 'enqueues to fail', 30_000).finally(() => disk.makeRoom())
    })
  },
})

/** The log is on the full disk: the server ends itself in panic, and cannot recover before there is room. */
export const diskFullLog = scenario<OnSmallDisk>({
  name: 'disk-full-log',
  title: "no space left on the disk of the server's log (pg_wal): the server goes down, and comes back with room",
  recoveryMs: 3_000,
  flow: 60,
  injections: { quick: 1, full: 8 },
  environment: () => onSmallDisk(moveLog),
  load: { asks: 'row' },
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 3_000, costsAttempts: true },
  twin: GIVES_UP,
  async inject(stage) {
    const { disk, server } = stage.environment
    await untilUp(stage)
    await stage.fault('no space for the log', async () => {
      await disk.fill()
      await untilRefused(stage, () => writeUntilDown(stage))
      await disk.makeRoom()
      await server.restart('immediate')
    })
  },
})

/** `prepare` runs before the server's first start. */
async function onSmallDisk(prepare: (server: EmbeddedServer, disk: SmallDisk) => Promise<void>) {
  const disk = await SmallDisk.mount(MEGABYTES)
  if ('missing' in disk) return disk
  const server = await EmbeddedServer.create(SMALL_LOG)
  const stop = async () => {
    await server.remove()
    await disk.unmount()
  }
  try {
    await disk.giveTo(server.folder)
    await prepare(server, disk)
    await server.start()
    return { disk, server, url: server.url, ledgerUrl: server.url, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

const SMALL_LOG = { max_wal_size: '8MB', min_wal_size: '2MB', wal_recycle: 'off' }

async function moveLog(server: EmbeddedServer, disk: SmallDisk): Promise<void> {
  const [log, moved] = [join(server.folder, 'pg_wal'), join(disk.folder, 'pg_wal')]
  await promisify(execFile)('mv', [log, moved])
  await symlink(moved, log)
}

async function moveTables(stage: Stage<OnSmallDisk>): Promise<void> {
  await stage.sql(`CREATE TABLESPACE small LOCATION '${stage.environment.disk.folder}'`)
  for (const kind of ['TABLE', 'INDEX']) {
    const relations = await stage.sql(
      `SELECT c.oid::regclass::text AS name FROM pg_class c
       WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = $1`,
      [kind === 'TABLE' ? 'r' : 'i'],
    )
    for (const { name } of relations) await stage.sql(`ALTER ${kind} ${String(name)} SET TABLESPACE small`)
  }
}

/** How many tries of producers have found no space so far. The twin's does not tell: it commits without its messages. */
async function refused(stage: Stage): Promise<number> {
  const [row] = await stage.sql(`
    SELECT ((SELECT count(*) FROM ledger.told WHERE detail LIKE '%No space left on device%')
          + (SELECT count(*) FROM ledger.enqueued WHERE message_id <= 0))::integer AS tries`)
  return Number(row?.tries)
}

/** Somebody writes much. Resolves when the server has ended the connection. */
async function writeUntilDown(stage: Stage<OnSmallDisk>): Promise<void> {
  const client = await connect(stage.environment.url)
  const ended = new Promise((resolve) => client.once('end', resolve))
  const write = async () => {
    for (;;) await client.query("SELECT pg_logical_emit_message(false, 'ballast', repeat('x', 500000))")
  }
  await Promise.race([ended, write().catch(() => ended)])
}

import { Pooler } from '../environment/pooler.ts'
import { type Environment, ownDatabase } from '../run/environment.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { PARTITIONS_OF_SESSIONS } from '../twins/stream-twins.ts'

interface Pooled extends Environment {
  readonly pooler: Pooler
}

/** A database behind a PgBouncer that hands its server sessions from transaction to transaction. */
async function pooled(serverUrl: string, direct: boolean): Promise<Pooled | { readonly missing: string }> {
  const database = await ownDatabase(serverUrl)
  const pooler = await Pooler.start(database.url, { mode: 'transaction', size: 4 })
  if (pooler === undefined) {
    await database.stop()
    return { missing: 'PgBouncer is not installed' }
  }
  return {
    url: pooler.url,
    directUrl: direct ? database.url : undefined,
    ledgerUrl: database.ledgerUrl,
    pooled: true,
    unsupervised: !direct,
    pooler,
    stop: async () => {
      await pooler.stop()
      await database.stop()
    },
  }
}

/** By turns the pooler vanishes and comes back, and a worker is killed in mid-handler. */
async function disturb(stage: Stage<Pooled>, at: number): Promise<void> {
  if (at % 2 === 0) {
    await stage.fault('PgBouncer killed and started again', () => stage.environment.pooler.restart())
    return
  }
  const victim = stage.victim()
  await stage.fault('a worker killed behind PgBouncer', async () => {
    victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
    await victim.actor.ended
  })
  await stage.replace(victim)
}

const TRUSTS_ITS_SESSION = {
  file: 'connection/control.ts',
  from: 'this.#shared = await isShared(',
  to: 'this.#shared = false && await isShared(',
} as const

/** Batches release session locks where the session is their own. A twin's locks could be gone before the audit. */
const LEAVES_LOCKS = {
  file: 'transaction/batch-connection.ts',
  from: 'const reset = this.#session.pooled ?',
  to: 'const reset = true || this.#session.pooled ?',
} as const

/** And a batch takes a lock of its session, so that not only chance decides whether one is left. */
const LOCKS_ITS_SESSION = {
  file: 'transaction/batch-connection.ts',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source's own.
  from: '`BEGIN ISOLATION LEVEL READ COMMITTED${all}`',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source's own.
  to: '`SELECT pg_advisory_lock_shared(746502, 0); BEGIN ISOLATION LEVEL READ COMMITTED${all}`',
} as const

export const poolerDirect = scenario<Pooled>({
  name: 'pooler',
  title: 'batches and producers through PgBouncer in transaction mode, control and listener direct',
  recoveryMs: 8_000,
  injections: { quick: 2, full: 10 },
  costsAttempts: true,
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 5_000, injections: { quick: 1, full: 10 } },
  stream: { injections: { quick: 1, full: 10 }, twin: PARTITIONS_OF_SESSIONS },
  environment: (serverUrl) => pooled(serverUrl, true),
  twin: {
    name: 'control-through-the-pooler',
    title: 'a control connection that goes through the pooler, and takes the session for its own',
    edits: [
      TRUSTS_ITS_SESSION,
      LEAVES_LOCKS,
      LOCKS_ITS_SESSION,
      {
        file: 'config.ts',
        from: 'options.directConnection === undefined ? connection',
        to: 'options.directConnection !== null ? connection',
      },
    ],
    // The pooler's restart ends its sessions with their locks: then what is left shows only in what does not go on.
    caught: ['leak', 'wrongly dead', 'stuck', 'late'],
  },
  inject: disturb,
})

export const poolerOnly = scenario<Pooled>({
  name: 'pooler-only',
  title: 'everything through PgBouncer in transaction mode',
  recoveryMs: 8_000,
  injections: { quick: 2, full: 10 },
  costsAttempts: true,
  // Nobody sees that a worker has died, so its messages are free when their leases end.
  otherwise: { recoveryMs: LEASE_MS + 8_000 },
  stream: { injections: { quick: 1, full: 10 } },
  environment: (serverUrl) => pooled(serverUrl, false),
  twin: {
    name: 'sessions-taken-for-own',
    title: 'locks of a session that others get next',
    edits: [TRUSTS_ITS_SESSION, LEAVES_LOCKS, LOCKS_ITS_SESSION],
    caught: ['leak', 'wrongly dead', 'stuck', 'late'],
  },
  inject: disturb,
})

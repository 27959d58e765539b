import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Environment, onServer, ownDatabase } from '../run/environment.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import { GIVES_UP } from '../twins/twins.ts'
import { untilRefused, untilUp } from './until-refused.ts'

interface LimitedRole extends Environment {
  readonly role: string
}

const LASTS_MS = 1_500
const END_ALL = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1'

/** The limit is a role's. To a client it is the same as the server's own (53300), and only the fleet is refused. */
export const poolExhausted = scenario<LimitedRole>({
  name: 'pool-exhausted',
  title: 'all connections end, and for a while the server refuses others (too_many_connections)',
  recoveryMs: 5_000,
  injections: { quick: 2, full: 10 },
  // Those that come back first find the others dead, and count it.
  costsAttempts: true,
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 5_000 },
  environment: limitedRole,
  twin: GIVES_UP,
  async prepare(stage) {
    await stage.sql(`GRANT pg_read_all_data, pg_write_all_data TO ${stage.environment.role}`)
  },
  async inject(stage) {
    const { role } = stage.environment
    await untilUp(stage)
    await stage.fault('no connections to be had', async () => {
      await stage.sql(`ALTER ROLE ${role} CONNECTION LIMIT 0`)
      await Promise.all([untilRefused(stage, () => stage.sql(END_ALL, [role])), pause(LASTS_MS)])
      await stage.sql(`ALTER ROLE ${role} CONNECTION LIMIT -1`)
    })
  },
})

/** A database of one's own, used by a role that can be limited: limits do not count for superusers. */
async function limitedRole(serverUrl: string): Promise<LimitedRole> {
  const role = `faults_${randomBytes(5).toString('hex')}`
  const password = randomBytes(9).toString('hex')
  const database = await ownDatabase(serverUrl)
  await onServer(serverUrl, `CREATE ROLE ${role} LOGIN PASSWORD '${password}'`)
  const url = new URL(database.url)
  url.username = role
  url.password = password
  return {
    role,
    url: url.href,
    ledgerUrl: database.ledgerUrl,
    async stop() {
      await database.stop()
      await onServer(serverUrl, `DROP ROLE ${role}`)
    },
  }
}

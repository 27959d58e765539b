import type { Client } from 'pg'
import { type OwnServer, ownServer } from '../environment/own-server.ts'
import { connect } from '../run/environment.ts'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { GIVES_UP, NOT_RESTORED } from '../twins/twins.ts'
import { untilRefused, untilUp } from './until-refused.ts'

/** What both have in common. */
const SHARED = {
  recoveryMs: 3_000,
  flow: 60,
  injections: { quick: 3, full: 15 },
  environment: () => ownServer(),
  // A transaction id that was given out shortly before a crash may be given out again, so a producer asks for its row.
  load: { asks: 'row' },
  // Nobody knows of the leases of a claim whose answer is lost: its messages are free when they end.
  otherwise: { recoveryMs: LEASE_MS + 4_000, costsAttempts: true },
} as const

export const restartImmediate = scenario<OwnServer>({
  name: 'restart-immediate',
  title: "the server's immediate shutdown (SIGQUIT), and its start, which recovers",
  ...SHARED,
  stream: { twin: GIVES_UP },
  twin: GIVES_UP,
  async inject(stage) {
    await untilUp(stage)
    await stage.fault('restarted', async () => {
      const { server } = stage.environment
      await untilRefused(stage, () => server.stop('immediate'))
      await server.start()
    })
  },
})

export const crashBackend = scenario<OwnServer>({
  name: 'crash-backend',
  title: 'SIGKILL a process of the server that serves a client: it ends all others and recovers',
  ...SHARED,
  otherwise: { ...SHARED.otherwise, injections: { quick: 1, full: 15 } },
  // Whether anybody is refused while it recovers is a matter of chance.
  twin: NOT_RESTORED,
  async inject(stage) {
    const witness = await connect(stage.environment.url)
    const victims = await until(() => servedClients(witness), 'somebody to be served', 5_000)
    await stage.fault('crashed', () => crash(stage, witness, stage.random.pick(victims)))
  },
})

/** The processes that serve the producer and the workers. */
async function servedClients(witness: Client): Promise<[number, ...number[]] | undefined> {
  const { rows } = await witness.query<{ pid: number }>(`
    SELECT a.pid FROM pg_stat_activity a
    WHERE a.application_name = 'producer' OR a.application_name LIKE 'sluice%' ORDER BY a.application_name, a.pid`)
  const [first, ...others] = rows.map(({ pid }) => pid)
  return first === undefined ? undefined : [first, ...others]
}

/** Resolves when the server takes connections again. */
async function crash(stage: Stage<OwnServer>, witness: Client, pid: number): Promise<void> {
  const ended = new Promise((resolve) => witness.once('end', resolve))
  process.kill(pid, 'SIGKILL')
  await ended
  await stage.sql('SELECT')
}

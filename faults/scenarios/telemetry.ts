import { scenario } from '../run/scenario.ts'
import { CALLS_HANDLERS_AGAIN } from '../twins/operation-twins.ts'

/** Spans and metrics are lost, and nothing else: a message keeps its trace through retries and deaths of processes. */
export const telemetry = scenario({
  name: 'telemetry',
  title:
    "SIGKILL workers after a handler's effects, with an SDK of OpenTelemetry that throws in one call of ten and is slow",
  recoveryMs: 10_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  load: { lanes: 1, traced: true },
  workers: { flakySdk: true },
  otherwise: { recoveryMs: 25_000, workers: { pipeline: { lease: '10m' } } },
  twin: CALLS_HANDLERS_AGAIN,
  async inject(stage) {
    const victim = stage.victim()
    await stage.fault("killed after a handler's effects", async () => {
      victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'effects' })
      await victim.actor.ended
    })
    await stage.replace(victim)
    const [row] = await stage.sql(
      'SELECT count(trace)::integer AS traced, count(*)::integer AS all FROM ledger.enqueued',
    )
    // The rule about traces is to be about something.
    if (Number(row?.traced) * 10 < Number(row?.all))
      throw new Error(`Only ${row?.traced} of ${row?.all} messages have a trace`)
  },
})

import { StandbyPair } from '../../faults/environment/standby-pair.ts'
import type { Measured, SampleContext } from '../cell.ts'
import { measureWriters, type WritersSpec } from './writers.ts'

/** Writers on a server of the sample's own, whose every COMMIT waits for a standby at that distance. */
export async function measureOnStandby(
  context: SampleContext,
  distanceMs: number,
  spec: WritersSpec,
): Promise<Measured> {
  const pair = await StandbyPair.start({ distanceMs })
  try {
    await context.contestant.install(pair.url)
    const { metrics, left } = await measureWriters({ ...context, url: pair.url }, spec)
    const [row] = await pair.primary.sql<{ left: number }>('SELECT count(*)::integer AS left FROM sluice.message')
    if (row?.left !== left) throw new Error(`Expected ${left} messages to be left, found ${row?.left}`)
    // On the run's own server there are none.
    return { metrics, left: 0 }
  } finally {
    await pair.stop()
  }
}

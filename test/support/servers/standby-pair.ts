import { onTestFinished } from 'vitest'
import { StandbyPair, type StandbyPairOptions } from '../../../faults/environment/standby-pair.ts'
import { migrate } from '../../../src/migrate/migrate.ts'

/** A primary and its standby, with the schema, for one test. */
export async function startStandbyPair(options: StandbyPairOptions = {}): Promise<StandbyPair> {
  const pair = await StandbyPair.start(options)
  onTestFinished(() => pair.stop())
  await migrate(pair.url)
  return pair
}

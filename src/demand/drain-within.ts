import { within } from '../basics/within.ts'
import type { Demand } from './demand.ts'

/** Drains a pipeline, and after so long stops it. */
export async function drainWithin(ms: number, demand: Pick<Demand, 'drain' | 'stop'>): Promise<void> {
  await within(ms, demand.drain(), () => void demand.stop())
  await demand.stop()
}

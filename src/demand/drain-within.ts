import { within } from '../connection/within.ts'
import type { Producer } from './producer.ts'

/** Drains a producer, and after so long stops it. */
export async function drainWithin(ms: number, producer: Pick<Producer, 'drain' | 'stop'>): Promise<void> {
  await within(ms, producer.drain(), () => void producer.stop())
  await producer.stop()
}

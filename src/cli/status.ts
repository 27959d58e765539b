import { type QueueStatus, readClockUs, readQueues, readWorkers, type WorkerStatus } from '../table/inspect.ts'
import type { Execute } from '../table/statement.ts'
import { type Attention, attentionTo } from './attention.ts'

/** What `sluice status` knows, and prints as JSON. */
export interface Status {
  /** By the database's clock. */
  readonly at: string
  readonly queues: readonly QueueStatus[]
  readonly workers: readonly WorkerStatus[]
  readonly needsAttention: readonly Attention[]
}

/** Reads the status of all queues, or of one. */
export async function readStatus(execute: Execute, queue: string | null): Promise<Status> {
  const [nowUs, queues, workers] = await Promise.all([
    readClockUs(execute),
    readQueues(execute, queue),
    readWorkers(execute, queue),
  ])
  return { at: new Date(nowUs / 1000).toISOString(), queues, workers, needsAttention: attentionTo(queues, workers) }
}

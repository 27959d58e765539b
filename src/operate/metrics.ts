import { type InboxStatus, type RelayStatus, readInboxes, readRelays } from '../table/operate/peer-status.ts'
import { type QueueBacklog, readBacklogs } from '../table/operate/queues/backlogs.ts'
import { type GroupStatus, readGroups } from '../table/stream/stream-status.ts'
import type { Operations } from './operations.ts'

/** What the database has to do, as gauges for a monitoring system. */
export interface DatabaseMetrics {
  readonly queues: readonly QueueBacklog[]
  readonly groups: readonly GroupStatus[]
  readonly relays: readonly RelayStatus[]
  readonly inboxes: readonly InboxStatus[]
}

export async function readMetrics(operations: Operations): Promise<DatabaseMetrics> {
  const queues = await operations.read((execute) => readBacklogs(execute, null))
  const groups = await operations.count((execute) => readGroups(execute, null))
  const relays = await operations.read((execute) => readRelays(execute, null))
  const inboxes = await operations.read((execute) => readInboxes(execute, null))
  return { queues, groups, relays, inboxes }
}

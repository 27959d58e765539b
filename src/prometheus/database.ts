import type { DatabaseMetrics } from '../operate/metrics.ts'
import { family, type Labels, type Sample } from './text.ts'

/** Gauges of the database: queues, groups, and the relays and inboxes of live workers. */
export function databaseFamilies(metrics: Partial<DatabaseMetrics>): readonly string[] {
  const { queues = [], groups = [], relays = [], inboxes = [] } = metrics
  return [
    ...gauges('queue', QUEUE, queues, ({ queue }) => ({ queue })),
    ...gauges('group', GROUP, groups, labelsOf),
    unavailable('relay', 'Live workers whose relay cannot publish the queue.', relays),
    unavailable('inbox', 'Live workers whose inbox cannot receive or store for the queue.', inboxes),
  ]
}

type Peer = DatabaseMetrics['relays' | 'inboxes'][number]
type Queue = DatabaseMetrics['queues'][number]
type Group = DatabaseMetrics['groups'][number]

/** Its name, what it says, and its value; null: there is none now. */
type Gauge<Of> = readonly [name: string, help: string, read: (one: Of) => number | null]

const QUEUE: readonly Gauge<Queue>[] = [
  ['due_messages', 'Messages that are due, up to 10,000.', ({ due }) => due],
  ['leased_messages', 'Messages under a lease, and in claims.', ({ leased }) => leased],
  ['retrying_messages', 'Failed messages that wait for their next attempt, up to 10,000.', ({ retrying }) => retrying],
  ['held_keys', 'Ordering keys that wait for a failed or snoozed message, up to 10,000.', ({ heldKeys }) => heldKeys],
  ['in_flight_messages', 'Messages that workers and claims have in flight.', ({ inFlight }) => inFlight],
  ['concurrency_limit', 'How many messages may be in flight.', ({ concurrency }) => concurrency],
  ['oldest_due_seconds', 'How long the oldest due message has been due.', (one) => secondsOf(one.oldestDueAgeMs)],
  ['dead_letters', 'Dead letters, up to 10,000.', ({ dead }) => dead],
  ['workers', 'Live worker processes that consume the queue.', ({ workers }) => workers],
  ['paused', '1 if the queue is paused.', ({ pausedAt }) => Number(pausedAt !== null)],
]

const GROUP: readonly Gauge<Group>[] = [
  ['unread_events', 'Events that the group has not read, estimated beyond 1,000 a partition.', ({ unread }) => unread],
  ['oldest_unread_seconds', 'How long ago the oldest of them was appended.', (one) => secondsOf(one.oldestUnreadAgeMs)],
  ['deferred_events', 'Failed events, and those that wait behind one.', ({ deferred }) => deferred],
  ['dead_letters', 'Dead letters.', ({ dead }) => dead],
  ['stopped_partitions', 'Partitions that an event blocks for good.', ({ partitionsStopped }) => partitionsStopped],
  ['workers', 'Live worker processes that consume the group.', ({ members }) => members],
  ['paused', '1 if the group is paused.', ({ pausedAt }) => Number(pausedAt !== null)],
]

function labelsOf({ stream, group }: Group): Labels {
  return { stream, group }
}

/** That nothing is due has an age too, so that a graph has no holes. */
function secondsOf(ms: number | null): number {
  return (ms ?? 0) / 1_000
}

/** Counted for each queue: the names of workers are ever new. */
function unavailable(peer: 'relay' | 'inbox', help: string, ones: readonly Peer[]): string {
  const counts = new Map<string, number>()
  for (const { queue, state } of ones) counts.set(queue, (counts.get(queue) ?? 0) + Number(state === 'unavailable'))
  const samples = [...counts].map(([queue, count]): Sample => [{ queue }, count])
  return family(`sluice_${peer}_unavailable_workers`, 'gauge', help, samples)
}

function gauges<Of>(
  prefix: string,
  all: readonly Gauge<Of>[],
  ones: readonly Of[],
  label: (one: Of) => Labels,
): readonly string[] {
  return all.map(([name, help, read]) => {
    const samples = ones.flatMap((one): readonly Sample[] => {
      const value = read(one)
      return value === null ? [] : [[label(one), value]]
    })
    return family(`sluice_${prefix}_${name}`, 'gauge', help, samples)
  })
}

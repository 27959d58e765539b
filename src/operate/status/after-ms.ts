/**
 * How long it must have lasted before it needs attention: as long as in `sluice.doctor`, whose condition is the same. A test
 * compares the two.
 */
export const AFTER_MS = {
  'queues.no_worker': 60_000,
  'queues.stuck': 60_000,
  'workers.gone': 180_000,
  'relays.unavailable': { outage: 300_000, settings: 60_000 },
  'inboxes.unavailable': { outage: 300_000, settings: 60_000 },
  'schedules.overdue': 90_000,
  'groups.no_members': 60_000,
  'streams.open_append': 300_000,
} as const

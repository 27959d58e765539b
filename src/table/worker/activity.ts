import { type Execute, statement } from '../statement.ts'

/** What a worker has done in each queue, and its number among those of the worker. */
export interface ActivityNote {
  readonly workerId: number
  readonly number: number
  /** As JSON: see sluice.worker_activity. */
  readonly queues: string
}

/** Writes notes, each of them once: one that has been written before is left out. */
export async function writeActivity(execute: Execute, notes: readonly ActivityNote[]): Promise<void> {
  await execute(WRITE, [
    notes.map(({ workerId }) => workerId),
    notes.map(({ number }) => number),
    notes.map(({ queues }) => queues),
  ])
}

// Without a target of the conflict, because that needs the right to read.
const WRITE = statement(
  'activity_write',
  `
INSERT INTO sluice.worker_activity (worker_id, number, queues)
SELECT n.worker_id, n.number, n.queues::jsonb
FROM unnest($1::integer[], $2::integer[], $3::text[]) AS n (worker_id, number, queues)
ON CONFLICT DO NOTHING`,
)

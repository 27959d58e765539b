import { type Execute, statement } from '../statement.ts'

/** Records what a worker has done in each queue, as JSON: see sluice.worker_activity. */
export async function noteActivity(execute: Execute, workerId: number, queues: string): Promise<void> {
  await execute(NOTE, [workerId, queues])
}

const NOTE = statement(
  'activity_note',
  'INSERT INTO sluice.worker_activity (worker_id, queues) VALUES ($1::integer, $2::text::jsonb)',
)

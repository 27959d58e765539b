import type { Operate, QueueActivity, Status } from 'sluice'

/** What the overview shows, and of which other pages show a part. */
export interface Findings extends Status {
  /** What was done in the last hour, by minutes. */
  readonly activity: readonly QueueActivity[]
}

export async function readFindings(operate: Operate): Promise<Findings> {
  return { ...(await operate.status()), activity: await operate.queues.activity() }
}

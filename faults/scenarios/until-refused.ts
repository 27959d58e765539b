import type { WorkerActor } from '../run/fleet.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

/** Ends all connections, and resolves when each worker has tried to have its control connection back, and was refused. */
export async function untilRefused(stage: Stage, end: () => Promise<unknown>): Promise<void> {
  const { workers } = stage.fleet
  const before = workers.map(losses)
  await end()
  // It tells of the loss, and then of why the connection cannot be restored.
  const wereRefused = () => workers.every((worker, at) => losses(worker) >= (before[at] ?? 0) + 2)
  await until(wereRefused, 'all workers to be refused', 30_000)
}

function losses({ actor }: WorkerActor): number {
  return actor.news.filter(
    (news) => news.kind === 'event' && news.event === 'connection.lost' && news.role === 'control',
  ).length
}

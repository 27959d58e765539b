import type { WorkerActor } from '../run/fleet.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

/** Resolves when all workers have their control connections: the load may flow again while one of them has not. */
export async function untilUp({ fleet }: Stage): Promise<void> {
  await until(() => fleet.workers.every(isUp), 'the workers to have their control connections', 30_000)
}

/** Ends all connections, and resolves when each worker has tried to have its control connection back, and was refused. */
export async function untilRefused(stage: Stage, end: () => Promise<unknown>): Promise<void> {
  const { workers } = stage.fleet
  const before = workers.map(losses)
  await end()
  // It tells of the loss, and then of why the connection cannot be restored.
  const wereRefused = () => workers.every((worker, at) => losses(worker) >= (before[at] ?? 0) + 2)
  await until(wereRefused, 'all workers to be refused', 30_000)
}

function isUp(worker: WorkerActor): boolean {
  return controlEvents(worker).at(-1) !== 'connection.lost'
}

function losses(worker: WorkerActor): number {
  return controlEvents(worker).filter((event) => event === 'connection.lost').length
}

function controlEvents({ actor }: WorkerActor): readonly string[] {
  return actor.news.flatMap((news) => (news.kind === 'event' && news.role === 'control' ? [news.event] : []))
}

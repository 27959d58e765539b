import type { SluiceConfig } from '../config.ts'
import type { PipelinePlan, TransactionalPlan } from '../plan/options.ts'
import type { QueueDefinition } from '../queues.ts'
import type { Execute } from '../table/statement.ts'
import { groupQueueCheck } from '../table/stream/group-queue.ts'
import { LockedSource } from './locked-source.ts'
import { LogSource } from './log/log-source.ts'
import type { SourceRuntime } from './rules-of.ts'
import type { TransactionalSource } from './source.ts'

/** Where the batches of a transactional pipeline come from. */
export function sourceOf(runtime: SourceRuntime, plan: TransactionalPlan): TransactionalSource {
  const { log, queue } = plan
  return log === undefined ? new LockedSource(runtime, plan, groupQueueCheck(queue)) : new LogSource(runtime, plan, log)
}

/** The schema of what a plan consumes: a queue's, or a stream's. */
export function definitionOf({ definitions, streams }: SluiceConfig, plan: PipelinePlan): QueueDefinition | undefined {
  const log = logOf(plan)
  return log === undefined ? definitions?.[plan.queue] : streams?.[log.stream]
}

/** A queue that belongs to a group is consumed with the group. @throws SluiceError QUEUE_UNKNOWN, UNREACHABLE */
export async function refuseQueueOfGroup(execute: Execute, plan: PipelinePlan): Promise<void> {
  if (logOf(plan) === undefined) await groupQueueCheck(plan.queue)?.(execute)
}

function logOf(plan: PipelinePlan): TransactionalPlan['log'] {
  return plan.mode === 'transactional' ? plan.log : undefined
}

import {
  isUnfinished,
  keepSegments,
  type MaintenanceTask,
  readStreamNames,
  runStep,
  TASKS,
  takeNotes,
} from '../table/maintain/tasks.ts'
import type { Execute } from '../table/statement.ts'
import { readLeaving } from '../table/stream/segments.ts'
import { dropSegments, type InSession } from './drop-segments.ts'

/** What one pass of maintenance has done. */
export interface MaintenanceResult {
  /** Messages that had expired, dropped or moved to the dead letters. */
  readonly expired: number
  /** Dead letters that were older than their queue keeps them, deleted. */
  readonly deadLetters: number
  /** Dedupe keys that were no longer taken, deleted. */
  readonly dedupeKeys: number
  /** Receipts of received messages that were older than they are kept, deleted. */
  readonly receipts: number
  /** Messages deleted from the history one by one, where other queues keep them for longer. */
  readonly history: number
  /** Days of the history that have been dropped as a whole. */
  readonly historyDropped: number
  /** Days of the history that have been made ahead. */
  readonly historyPartitions: number
  /** Claims that are over, and evidence about messages that are gone. */
  readonly leftovers: number
  /** Segments of streams that have been opened, made ahead, or marked to go. */
  readonly segments: number
  /** Segments of streams that have been dropped. */
  readonly segmentsDropped: number
  /** False: another process was at it, a task failed, or there is more than a pass may take. The next pass goes on. */
  readonly finished: boolean
}

/** What a pass does, by the names of its counts; `backlogHistory` writes a row, and has no count. */
export type PassedTask = keyof Omit<MaintenanceResult, 'finished'> | 'backlogHistory'

export interface MaintainOptions {
  /** Runs one step in a transaction of its own. */
  readonly inTransaction: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>
  /** Runs statements outside of transactions, on a connection of their own. */
  readonly inSession: InSession
  /** A task failed; the next ones go on. */
  readonly onFailed: (task: PassedTask, error: unknown) => void
  /** Ends the pass after the step that is under way. */
  readonly signal?: AbortSignal | undefined
}

/** Makes one pass: every task, step by step, each step a short transaction. It ends after 30 s. */
export async function maintain(options: MaintainOptions): Promise<MaintenanceResult> {
  const endsAt = performance.now() + LONGEST_MS
  const counts = { ...NOTHING }
  let finished = true
  for (const task of TASKS) {
    try {
      if (!(await runTask(task, options, endsAt, (taken) => (counts[task] += taken)))) finished = false
    } catch (error) {
      finished = false
      options.onFailed(task, error)
    }
  }
  const failures: unknown[] = []
  if (!(await keepStreams(options, endsAt, failures, (taken) => (counts.segments += taken)))) finished = false
  await note(options)
  const { dropped, left } = await leave(options)
  // Behind the other streams, and the drops: the first error may end the pass.
  for (const error of failures) options.onFailed('segments', error)
  return { ...counts, segmentsDropped: dropped, finished: finished && left === 0 }
}

/**
 * Each stream in a transaction of its own, so that one failure does not block the others. Returns whether all were.
 */
async function keepStreams(
  { inTransaction, signal }: MaintainOptions,
  endsAt: number,
  failures: unknown[],
  add: (taken: number) => void,
): Promise<boolean> {
  const failed = (error: unknown): void => void failures.push(error)
  const streams = signal?.aborted === true ? [] : await inTransaction(readStreamNames).catch(failed)
  for (const stream of streams ?? []) {
    if (signal?.aborted === true || performance.now() >= endsAt) return false
    await inTransaction((execute) => keepSegments(execute, stream)).then(add, failed)
  }
  return failures.length === 0
}

async function note({ inTransaction, onFailed, signal }: MaintainOptions): Promise<void> {
  if (signal?.aborted === true) return
  await inTransaction(takeNotes).catch((error: unknown) => onFailed('backlogHistory', error))
}

/** Drops the segments that have been marked, if there are any. */
async function leave({
  inTransaction,
  inSession,
  onFailed,
  signal,
}: MaintainOptions): Promise<{ dropped: number; left: number }> {
  try {
    const leaving = signal?.aborted === true ? [] : await inTransaction(readLeaving)
    return leaving.length === 0 ? { dropped: 0, left: 0 } : await dropSegments(inSession, signal)
  } catch (error) {
    // The signal cuts the connection.
    if (signal?.aborted !== true) onFailed('segmentsDropped', error)
    return { dropped: 0, left: 1 }
  }
}

/** Returns whether it has come to its end. */
async function runTask(
  task: (typeof TASKS)[number],
  { inTransaction, signal }: MaintainOptions,
  endsAt: number,
  add: (taken: number) => void,
): Promise<boolean> {
  while (signal?.aborted !== true && performance.now() < endsAt) {
    const taken = await inTransaction((execute) => runStep(execute, task))
    if (taken === undefined) return false
    add(taken)
    if (!isUnfinished(task, taken)) return true
  }
  return false
}

const NOTHING: Readonly<Record<MaintenanceTask, number>> = {
  expired: 0,
  deadLetters: 0,
  dedupeKeys: 0,
  receipts: 0,
  history: 0,
  historyDropped: 0,
  historyPartitions: 0,
  leftovers: 0,
  segments: 0,
}

const LONGEST_MS = 30_000

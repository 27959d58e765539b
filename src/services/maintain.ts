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
  /** There is more to do than the pass had time for: the next one need not wait. */
  readonly onLate?: () => void
  /** Ends the pass after the step that is under way. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Makes one pass: a step of every task, and more steps of those that have more to do, in turn, for 30 s. Each step is a short
 * transaction.
 */
export async function maintain(options: MaintainOptions): Promise<MaintenanceResult> {
  const endsAt = performance.now() + LONGEST_MS
  const counts = { ...NOTHING }
  let finished = await runTasks(options, endsAt, counts)
  const failures: unknown[] = []
  if (!(await keepStreams(options, failures, (taken) => (counts.segments += taken)))) finished = false
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
  failures: unknown[],
  add: (taken: number) => void,
): Promise<boolean> {
  const failed = (error: unknown): void => void failures.push(error)
  const streams = signal?.aborted === true ? [] : await inTransaction(readStreamNames).catch(failed)
  for (const stream of streams ?? []) {
    if (signal?.aborted === true) return false
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

/** Returns whether all have come to their end. */
async function runTasks(options: MaintainOptions, endsAt: number, counts: Counts): Promise<boolean> {
  const { signal, onLate } = options
  let finished = true
  let open: readonly SteppedTask[] = TASKS
  do {
    const unfinished: SteppedTask[] = []
    for (const task of open) {
      if (signal?.aborted === true) return false
      const after = await takeStep(task, options, counts)
      if (after === 'unfinished') unfinished.push(task)
      else if (after === 'given up') finished = false
    }
    open = unfinished
  } while (open.length > 0 && performance.now() < endsAt)
  if (open.length > 0) onLate?.()
  return finished && open.length === 0
}

/** Given up: it failed, or another process is at a step. */
async function takeStep(
  task: SteppedTask,
  { inTransaction, onFailed }: MaintainOptions,
  counts: Counts,
): Promise<'finished' | 'unfinished' | 'given up'> {
  try {
    const taken = await inTransaction((execute) => runStep(execute, task))
    if (taken === undefined) return 'given up'
    counts[task] += taken
    return isUnfinished(task, taken) ? 'unfinished' : 'finished'
  } catch (error) {
    onFailed(task, error)
    return 'given up'
  }
}

type SteppedTask = (typeof TASKS)[number]
type Counts = Record<MaintenanceTask, number>

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

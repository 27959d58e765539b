/**
 * The thread that tells how many messages of a schedule are due. Timers of the event loop wake it half a millisecond to a
 * millisecond late, which is as much as an idle consumer takes; a thread that waits on its own is 0.15 ms late.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { monotonicMs } from './monotonic.ts'
import { dueMs, type Schedule } from './schedule.ts'

const schedule = workerData as Schedule
const nothing = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

let due = 0
while (due < schedule.messages) {
  const nowMs = monotonicMs()
  const before = due
  while (due < schedule.messages && dueMs(schedule, due) <= nowMs) due += 1
  if (due > before) parentPort?.postMessage(due)
  else Atomics.wait(nothing, 0, 0, dueMs(schedule, due) - nowMs)
}

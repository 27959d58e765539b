import { durationWords } from '../../basics/duration-words.ts'
import { startTimer } from '../../basics/start-timer.ts'
import { note } from '../output.ts'

/** When it is said that a module still loads, and when that fails. */
export interface LoadingTimes {
  readonly sayMs: number
  readonly failMs: number
}

/** A module may wait for a service at its top, which takes seconds. */
const TIMES: LoadingTimes = { sayMs: 5_000, failMs: 60_000 }

/**
 * Waits for a module. A worker of its own that it awaits at its top, as programs for `node` do, would never let it load.
 *
 * @throws Error if it has not loaded in time, and what loading throws
 */
export async function orStillLoading<T>(file: string, loading: Promise<T>, times: LoadingTimes = TIMES): Promise<T> {
  const late = Promise.withResolvers<never>()
  const says = startTimer(() => note(`${file} is still loading. ${REASON} ${remedy(file)}`), times.sayMs)
  const fails = startTimer(() => {
    const text = `${file} has not loaded within ${durationWords(times.failMs)}. ${REASON} ${remedy(file)}`
    late.reject(new Error(text))
  }, times.failMs)
  try {
    return await Promise.race([loading, late.promise])
  } finally {
    clearTimeout(says)
    clearTimeout(fails)
  }
}

const REASON = 'An await at its top may wait for what ends only with the worker, as in `await running.ended`.'

function remedy(file: string): string {
  return `If it starts its own worker, run it with \`node ${file}\`; otherwise export defineWorker(…) and do not start it`
}

import { startTimer } from '../../basics/time/start-timer.ts'
import { note } from '../output.ts'

/** A module may wait for a service at its top, which takes seconds. */
const SAY_MS = 5_000

/**
 * Waits for a module, and says why it may never load: a worker of its own that it awaits at its top, as programs for `node` do. That
 * worker runs, so the command does not end it.
 */
export async function orStillLoading<T>(file: string, loading: Promise<T>): Promise<T> {
  const says = startTimer(() => note(`${file} is still loading. ${REASON} ${remedy(file)}`), SAY_MS)
  try {
    return await loading
  } finally {
    clearTimeout(says)
  }
}

const REASON = 'An await at its top may wait for what ends only with the worker, as in `await running.ended`.'

function remedy(file: string): string {
  return `If it starts its own worker, run it with \`node ${file}\`; otherwise export defineWorker(…) and do not start it`
}

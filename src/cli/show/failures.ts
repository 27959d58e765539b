import type { Failure } from '../../index.ts'
import { printable } from './text.ts'

/** A line for each failed attempt, and the stack of the latest. */
export function formatFailures(failures: readonly Failure[]): string {
  return failures.map(failureText).join('\n')
}

/** '2030-01-01T00:00:00.000Z  attempt 3 on web-1:4711: PaymentError: declined', and its stack. */
function failureText({ at, attempt, worker, error, stack }: Failure): string {
  const where = worker === null ? '' : ` on ${printable(worker)}`
  const frames = (stack?.split('\n') ?? []).map((frame) => `\n    ${printable(frame)}`)
  return `${at.toISOString()}  attempt ${attempt}${where}: ${printable(error)}${frames.join('')}`
}

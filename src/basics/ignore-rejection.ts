/**
 * For the answer of a callback that may not be async, and is so all the same. Nobody awaits its promise, whose rejection would
 * end the process, with all that it has in hand.
 */
export function ignoreRejection(answer: unknown): void {
  if (answer instanceof Promise) answer.catch(() => undefined)
}

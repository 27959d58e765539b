/**
 * For the answer of a callback that may not be async, and is so all the same. Its promise is not awaited, so a
 * rejection would end the process with all messages in flight.
 */
export function ignoreRejection(answer: unknown): void {
  if (answer instanceof Promise) answer.catch(() => undefined)
}

/** What the work gives, or undefined if the signal aborts first. The work goes on then. */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const aborted = Promise.withResolvers<undefined>()
  const abort = () => aborted.resolve(undefined)
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

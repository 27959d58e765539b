/** What saying goodbye may take. */
const FAREWELL_MS = 1_000

/**
 * Ends a connection: says goodbye, and destroys the socket if the other side does not answer. pg waits for that answer
 * without limit: to close a half-open connection would take as long as the operating system resends, a quarter of an
 * hour.
 */
export async function close(end: () => Promise<void>, destroy: () => void): Promise<void> {
  const timer = setTimeout(destroy, FAREWELL_MS)
  try {
    await end()
  } catch {
    destroy()
  } finally {
    clearTimeout(timer)
  }
}

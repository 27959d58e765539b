/**
 * The message has the driver's words. Of a cause only the code is added, because a database's error may quote a row.
 */
export function reasonOf(error: Error): string {
  const { cause } = error
  const code: unknown = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined
  return typeof code === 'string' && !error.message.includes(code) ? `${error.message} (${code})` : error.message
}

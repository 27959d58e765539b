/**
 * The message has the driver's words. Of a cause only the code is added, because a database's error may quote a row. Never
 * throws: what a handler or a policy has thrown may throw when it is read.
 */
export function reasonOf(error: Error): string {
  try {
    return withCode(error)
  } catch {
    return 'an error that cannot be read'
  }
}

function withCode(error: Error): string {
  const { cause } = error
  const message = String(error.message)
  const code: unknown = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined
  return typeof code === 'string' && !message.includes(code) ? `${message} (${code})` : message
}

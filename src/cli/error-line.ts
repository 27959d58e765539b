/** What an error says, in one line. Node reports the attempts at several addresses as one error without a message. */
export function errorLine(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return [...new Set(error.errors.map(errorLine))].join(', ')
  }
  return error instanceof Error ? error.message : String(error)
}

import { errorText } from '../../errors.ts'

/** What an error says. Node reports the attempts at several addresses as one error without a message. */
export function wordsOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return [...new Set(error.errors.map(wordsOf))].join(', ')
  }
  if (!(error instanceof Error)) return errorText(error)
  return WORDS[error.message] ?? (error.message || error.name)
}

/** What the driver says of time that is up does not say which. */
const WORDS: Readonly<Record<string, string>> = {
  'timeout expired': 'it did not answer within the connect timeout',
  'Connection terminated due to connection timeout': 'it did not answer within the connect timeout',
  'timeout exceeded when trying to connect': 'it did not answer within the connect timeout',
}

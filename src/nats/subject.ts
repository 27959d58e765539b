/**
 * What is expected instead of a subject under which nothing may be published; undefined: it is well. The client lets
 * `orders.*` through, and the server stores it under that name. Subjects that begin with `$` are the server's own. A line of
 * the protocol has 4 KiB at most, of which other fields need some: the server closes the connection on which a longer one comes.
 */
export function wrongSubject(subject: unknown): string | undefined {
  if (typeof subject !== 'string' || subject === '') return 'a subject'
  if (Buffer.byteLength(subject) > MOST_BYTES) return `a subject of at most ${MOST_BYTES} bytes`
  if (/[\s\p{Cc}]/u.test(subject)) return 'a subject without spaces and control characters'
  if (/[*>]/.test(subject)) return 'a subject without the wildcards * and >'
  if (subject.split('.').includes('')) return 'a subject without empty tokens'
  return subject.startsWith('$') || subject.startsWith('_INBOX.')
    ? 'a subject that is not the own of the server'
    : undefined
}

const MOST_BYTES = 2_000

import { oneLine } from './text.ts'

/** A text with the passwords of the URLs in it masked: errors of drivers quote them. */
export function withoutPasswords(text: string): string {
  return (
    text
      .replace(WORD, withoutPostgresPassword)
      // The server writes # for the numbers of a group's error, also for those of a password.
      .replace(/(:\/\/[^\s:/?#@"'`]*:)[^\s:/?@"'`]+(?=@)/g, MASKED)
      // Cut before the @, by whoever has stored or quoted it.
      .replace(/(:\/\/[^\s:/?#@"'`]*:)[^\s:/?@"'`]+(?=…|\.\.\.)/g, MASKED)
      .replace(/([?&](?:ssl)?password=)[^\s&#"'`]+/gi, MASKED)
  )
}

// Texts of megabytes get here. Each expression begins with a fixed text that its parts cannot hold, so that no character is
// read again for every place from which a match could begin.
const WORD = /[^\s"'`]+/g
const POSTGRES_PASSWORD = /(postgres(?:ql)?:\/\/[^:/?#@]*:).*/i
const MASKED = '$1***'

/** A word without spaces and quotes has at most one: up to its last @, a password may hold anything. */
function withoutPostgresPassword(word: string): string {
  const end = word.lastIndexOf('@')
  return end === -1 ? word : word.slice(0, end).replace(POSTGRES_PASSWORD, MASKED) + word.slice(end)
}

/** The first line of an error, without passwords, cut to a length that a column has room for. */
export function errorLine(text: string, most?: number): string {
  // What is cut first may have lost the @ by which a password is told.
  return oneLine(withoutPasswords(text), most)
}

/**
 * The error of a group of dead letters, without passwords. It has `#` for each number, and may be cut within a password: what
 * is `#` alone at its end is the port of a URL.
 */
export function groupError(error: string): string {
  return withoutPasswords(error).replace(/(:\/\/[^\s:/?#@"'`]*:)(?!#$)[^\s:/?@"'`]+$/, MASKED)
}

/** Its longest part that errors of the group have as it is: none of its numbers, and no password. */
export function commonPart(error: string): string {
  const parts = groupError(error).split(/#|\*\*\*/)
  return (parts.toSorted((a, b) => b.length - a.length)[0] ?? '').trim()
}

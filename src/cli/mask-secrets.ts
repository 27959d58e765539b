const MASK = '***'

/** Shorter secrets are masked only as whole words. */
const SHORT = 6

/**
 * The text with secrets masked: the password of every URL in it (of a postgres URL also one with characters that should
 * have been encoded), and the given secrets. A short secret is masked only as a whole word: inside other words the mask
 * would garble the text, and the rest of the word would reveal the secret.
 */
export function maskSecrets(text: string, secrets: readonly string[] = []): string {
  return [...secrets]
    .sort((a, b) => b.length - a.length)
    .reduce(maskSecret, text)
    .replace(WORD, maskPostgresUrl)
    .replace(PASSWORD_IN_URL, `$1${MASK}`)
    .replace(PASSWORD_PARAMETER, `$1${MASK}`)
}

// Texts of megabytes get here. Each expression begins with a fixed text that its parts cannot hold, so that no character is
// read again for every place from which a match could begin.
const WORD = /[^\s"'`]+/g
const POSTGRES_PASSWORD = /(postgres(?:ql)?:\/\/[^:/?#@]*:).*/i
const PASSWORD_IN_URL = /(:\/\/[^\s:/?#@"'`]*:)[^\s:/?#@"'`]+(?=@)/g
const PASSWORD_PARAMETER = /([?&](?:ssl)?password=)[^\s&#"'`]+/gi

/** A word without spaces and quotes has at most one: up to its last @, a password may hold anything. */
function maskPostgresUrl(word: string): string {
  const end = word.lastIndexOf('@')
  return end === -1 ? word : word.slice(0, end).replace(POSTGRES_PASSWORD, `$1${MASK}`) + word.slice(end)
}

function maskSecret(text: string, secret: string): string {
  if (secret.length >= SHORT) return text.replaceAll(secret, MASK)
  const literal = secret.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return text.replace(new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])`, 'gu'), MASK)
}

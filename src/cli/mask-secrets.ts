const MASK = '***'

/** Where the secret ends in a text: not at a letter or digit. */
const SHORT = 6

/**
 * The text without secrets: the password of every URL in it (in our own scheme also one that holds characters it should
 * not), and the given secrets wherever they stand. A short secret is masked only as a word of its own: inside of
 * other words it would disfigure the text, and be told by it.
 */
export function maskSecrets(text: string, secrets: readonly string[] = []): string {
  return [...secrets]
    .sort((a, b) => b.length - a.length)
    .reduce(maskSecret, text)
    .replace(PASSWORD_IN_POSTGRES_URL, `$1${MASK}`)
    .replace(PASSWORD_IN_URL, `$1${MASK}`)
    .replace(PASSWORD_PARAMETER, `$1${MASK}`)
}

const PASSWORD_IN_POSTGRES_URL = /\b(postgres(?:ql)?:\/\/[^\s:/?#@"'`]*:)[^\s"'`]*(?=@)/gi
const PASSWORD_IN_URL = /\b([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@"'`]*:)[^\s:/?#@"'`]+(?=@)/gi
const PASSWORD_PARAMETER = /([?&](?:ssl)?password=)[^\s&#"'`]+/gi

function maskSecret(text: string, secret: string): string {
  if (secret.length >= SHORT) return text.replaceAll(secret, MASK)
  const literal = secret.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return text.replace(new RegExp(`(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])`, 'gu'), MASK)
}

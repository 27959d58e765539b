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

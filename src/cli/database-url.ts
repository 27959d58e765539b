import pg from 'pg'
import { wordsOf } from '../basics/errors/words-of.ts'
import { SluiceError } from '../errors.ts'

/** Where to find the connection string: the command's options, and the environment. */
export interface DatabaseUrlSource {
  readonly databaseUrl?: string | undefined
}

/**
 * The connection string of `--database-url`, or else of DATABASE_URL. An error does not quote it, because it may hold a
 * password.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function readDatabaseUrl(options: DatabaseUrlSource, environment: NodeJS.ProcessEnv = process.env): string {
  const url = givenUrl(options, environment)
  if (url === undefined) {
    throw new SluiceError(
      'OPTION_INVALID',
      'No database given. Set DATABASE_URL or --database-url, for example to postgres://user@localhost:5432/app',
    )
  }
  const objection = objectionTo(url)
  if (objection === undefined) return url
  throw new SluiceError('OPTION_INVALID', `${nameOfSource(options)}: ${objection}`)
}

/** Where the connection string comes from, for errors. */
export function nameOfSource(options: DatabaseUrlSource): string {
  return options.databaseUrl ? '--database-url' : 'DATABASE_URL'
}

/**
 * The passwords that the driver will use, as written and decoded. A password that is also the name of the user or of
 * the database is left out, because that word is not secret and appears in many messages.
 */
export function secretsOf(options: DatabaseUrlSource, environment: NodeJS.ProcessEnv = process.env): readonly string[] {
  const url = givenUrl(options, environment) ?? ''
  const [authority = '', ...path] = afterScheme(url).split(/[/?#]/)
  const userInfo = authority.slice(0, Math.max(0, authority.lastIndexOf('@')))
  const [user = '', ...password] = userInfo.split(':')
  const parameters = [...url.matchAll(/[?&](?:ssl)?password=([^&#]*)/gi)].map((match) => match[1] ?? '')
  const known = new Set(
    [user, path[0], environment.PGUSER, environment.PGDATABASE].filter((name) => name !== undefined),
  )
  return [password.join(':'), ...parameters, environment.PGPASSWORD ?? '']
    .flatMap((secret) => [secret, decoded(secret)])
    .filter((secret) => secret !== '' && !known.has(secret))
}

/** `user@host:port/database`: a connection string without its password and parameters. */
export function targetOf(url: string): string {
  const [before = ''] = afterScheme(url).split(/[?#]/)
  const at = before.lastIndexOf('@')
  const [user = ''] = before.slice(0, Math.max(0, at)).split(':')
  const server = before.slice(at + 1) || 'the default server'
  return user === '' ? server : `${user}@${server}`
}

function objectionTo(url: string): string | undefined {
  if (!/^(?:postgres(?:ql)?:\/\/|socket:|\/)/i.test(url)) {
    return 'expected a URL such as postgres://user@localhost:5432/app'
  }
  if (/[/?#].*@/.test(afterScheme(url))) {
    return 'write / ? # @ inside of a user name, password or parameter as %2F %3F %23 %40'
  }
  try {
    // Reads the URL, and does not connect.
    new pg.Client({ connectionString: url })
    return undefined
  } catch (error) {
    return wordsOf(error)
  }
}

function givenUrl(options: DatabaseUrlSource, environment: NodeJS.ProcessEnv): string | undefined {
  return options.databaseUrl || environment.DATABASE_URL || undefined
}

function afterScheme(url: string): string {
  return url.replace(/^[a-z][a-z0-9+.-]*:(?:\/\/)?/i, '')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

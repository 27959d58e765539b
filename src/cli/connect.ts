import type { Command } from 'commander'
import { nearest } from '../basics/nearest.ts'
import { wordsOf } from '../basics/words-of.ts'
import { isSluiceError, SluiceError } from '../errors.ts'
import type { Operate } from '../operate/operate.ts'
import { createSluice } from '../sluice.ts'
import { type DatabaseUrlSource, nameOfSource, readDatabaseUrl, targetOf } from './database-url.ts'

const CONNECT_TIMEOUT_MS = 5_000

/**
 * Operates the database of `--database-url` or DATABASE_URL, and disconnects.
 *
 * @throws SluiceError OPTION_INVALID, UNREACHABLE, and what operations throw
 */
export function operating<T>(command: Command, work: (operate: Operate) => Promise<T>): Promise<T> {
  return connected(command, async (connection) => {
    const sluice = createSluice({ connection, connectTimeout: CONNECT_TIMEOUT_MS, log: false })
    try {
      return await work(sluice.operate)
    } finally {
      await sluice.stop({ timeout: 0 })
    }
  })
}

/** What a connection of the command line is made of. */
export interface CliConnection {
  readonly connectionString: string
  readonly connectionTimeoutMillis: number
  readonly application_name: string
}

/** Does work that opens connections itself; if it cannot, the error says where to and why. */
export async function connected<T>(command: Command, work: (config: CliConnection) => Promise<T>): Promise<T> {
  const options = command.optsWithGlobals<DatabaseUrlSource>()
  const connectionString = readDatabaseUrl(options)
  try {
    return await work({
      connectionString,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      application_name: 'sluice cli',
    })
  } catch (error) {
    if (!isSluiceError(error, 'UNREACHABLE')) throw error
    throw unreachable(connectionString, options, error)
  }
}

/**
 * What to say, with a space before it, about a queue of which there is nothing at all: the name that it may have been
 * meant to be. Nothing about one that exists, or to a login that may not read all views.
 */
export async function didYouMean(operate: Operate, queue: string | undefined): Promise<string> {
  if (queue === undefined) return ''
  const names = await operate.queueNames().catch((error: unknown) => {
    if (!isSluiceError(error, 'PRIVILEGE_MISSING')) throw error
  })
  if (names === undefined || names.includes(queue)) return ''
  const [meant] = nearest(queue, names)
  return meant === undefined ? ' No queue has this name.' : ` No queue has this name. Did you mean "${meant}"?`
}

function unreachable(url: string, options: DatabaseUrlSource, error: SluiceError): SluiceError {
  const source = nameOfSource(options)
  const reason = error.cause === undefined ? error.message : wordsOf(error.cause)
  // What follows the reason is the library's remedy. It also has to say where the command line has its settings from.
  const [, remedy = `Check ${source}, and that the server runs`] = error.message.split(`${reason}. `)
  const named = remedy.replace('the connection settings', source)
  return new SluiceError(
    'UNREACHABLE',
    `Cannot connect to ${targetOf(url)}: ${reason}. ${named.includes(source) ? named : `${named} (${source})`}`,
    { cause: error.cause },
  )
}

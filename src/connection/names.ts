import { createHash } from 'node:crypto'
import type pg from 'pg'
import { EVERY_SETTING } from '../table/planner.ts'
import { readSession } from '../table/session.ts'
import type { Statement } from '../table/statement.ts'
import { queryAsText } from './own-parsers.ts'

/** What stands between a connection and the server. */
export interface Session {
  /** The server process is not the one that the driver was told of when it connected. */
  readonly pooled: boolean
  /** Statements may be prepared by name. */
  readonly names: boolean
}

/**
 * Whether statements may be prepared by name on the connections to one address. Without names the server parses and
 * plans each anew, and handles a third to two thirds as many messages. But a name belongs to the server's session, and a
 * pooler hands sessions around: then a name is unknown, or taken, or stands for another version's statement. So a
 * connection has no names until it has shown that the session is its own, or that the pooler gives names of its own.
 */
export class Names {
  readonly #proven = new WeakSet<object>()
  readonly #onRefused: () => void
  #refused = false

  constructor(onRefused: () => void) {
    this.#onRefused = onRefused
  }

  /** Asks a new connection; what is sent before the answer goes without names. */
  async learn(client: pg.ClientBase): Promise<Session> {
    OF_CLIENT.set(client, this)
    const session = await sessionOf(client)
    if (session.names) this.#proven.add(client)
    else this.#refuse()
    return session
  }

  allows(client: object): boolean {
    return !this.#refused && this.#proven.has(client)
  }

  /** An error that tells of names that others see too: from here on there are none. */
  learnFrom(error: unknown): void {
    if (isAboutNames(error)) this.#refuse()
  }

  #refuse(): void {
    if (this.#refused) return
    this.#refused = true
    this.#onRefused()
  }
}

const OF_CLIENT = new WeakMap<object, Names>()

export function namesOf(client: object): Names | undefined {
  return OF_CLIENT.get(client)
}

const DEVIATIONS = new WeakMap<object, readonly string[]>()

/**
 * Which of the planner's settings must be set for statements of ours on this connection: all until it has answered.
 * Behind a pooler sessions have the same, because role and database are the same.
 */
export function deviationsOf(client: object): readonly string[] {
  return DEVIATIONS.get(client) ?? EVERY_SETTING
}

const OWN = new WeakSet<object>()

/** The connection has shown that no pooler stands before its session. */
export function hasOwnSession(client: object): boolean {
  return OWN.has(client)
}

const DEFERRABLE = new WeakMap<object, boolean>()

/** Whether the database had constraints that may be deferred and set back when the connection was opened. */
export function mayDefer(client: object): boolean {
  return DEFERRABLE.get(client) ?? false
}

/** The name with a hash of the text: the same name is the same statement, whichever version has prepared it. */
export function nameOf(statement: Statement): string {
  const known = NAMES.get(statement)
  if (known !== undefined) return known
  const name = `${statement.name}_${createHash('sha256').update(statement.text).digest('hex').slice(0, 8)}`
  NAMES.set(statement, name)
  return name
}

const NAMES = new WeakMap<Statement, string>()

/** @throws what the driver throws, except for an error that tells of a pooler. */
async function sessionOf(client: pg.ClientBase): Promise<Session> {
  const told: unknown = Reflect.get(client, 'processID')
  try {
    const { pid, knowsName, deviations, deferrable } = await readSession(async ({ text }, params) => {
      const { rows } = await queryAsText(client, { name: PROBE, text, values: [...params] })
      return rows
    }, PROBE)
    DEVIATIONS.set(client, deviations)
    DEFERRABLE.set(client, deferrable)
    const pooled = pid !== told
    if (!pooled) OWN.add(client)
    return { pooled, names: !pooled || !knowsName }
  } catch (error) {
    if (isAboutNames(error)) return { pooled: true, names: false }
    throw error
  }
}

const PROBE = 'sluice_session'

/** "prepared statement … does not exist", "… already exists". */
function isAboutNames(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '26000' || error.code === '42P05')
}

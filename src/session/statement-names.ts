import { createHash } from 'node:crypto'
import type pg from 'pg'
import type { Statement } from '../table/statement.ts'
import { Constraints } from './constraints.ts'
import { isAboutNames, type Session, sessionOf } from './session.ts'

/**
 * Whether statements may be prepared by name on the connections to one address. Without names the server parses and
 * plans each anew, and handles a third to two thirds as many messages. But a name belongs to the server's session, and
 * a pooler hands sessions around: then a name is unknown, or taken, or stands for another version's statement. So a
 * connection has no names until it has shown that the session is its own, or that the pooler gives names of its own.
 */
export class Names {
  readonly constraints = new Constraints()
  readonly #proven = new WeakSet<object>()
  readonly #onRefused: () => void
  #refused = false

  constructor(onRefused: () => void) {
    this.#onRefused = onRefused
  }

  /** Asks a new connection; what is sent before the answer goes without names. */
  async learn(client: pg.Client): Promise<Session> {
    OF_CLIENT.set(client, this)
    const session = await sessionOf(client)
    if (session.deferrable !== undefined) this.constraints.learned(session.deferrable)
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

/** What is known of the constraints of the database behind a connection. */
export function constraintsOf(client: object): Constraints | undefined {
  return OF_CLIENT.get(client)?.constraints
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

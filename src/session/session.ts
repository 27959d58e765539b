import pg from 'pg'
import { EVERY_SETTING } from '../table/planner.ts'
import { readPoolerSettings, readSession } from '../table/session/session.ts'
import { Address } from './address.ts'
import type { Constraints } from './constraints.ts'
import { queryAsText } from './own-parsers.ts'
import { isAboutNames } from './statement-names.ts'
import { StringSyntax } from './string-syntax.ts'

/**
 * What is known of the session behind one of our connections. Each connection has one such object, for as long as it
 * lives. What all connections to an address have in common is in their {@link Address}.
 *
 * Behind a pooler each transaction may run in another server session, after a failover even on another server, and
 * nothing tells the connection. So this holds only what those sessions have in common, because they have the same role
 * and database, or because the pooler sets it for its client: it stays valid when the session changes. There are two
 * exceptions. If the pooler mixes up names after all, {@link failed} notices. If another server is configured
 * differently, {@link deviations} are wrong until the next connection learns them. What belongs to one server session,
 * such as the number of its process, comes with each claim and is not kept. Which rows the server still has is a
 * matter of each claimer: see `KnownServer`.
 *
 * Until the session has answered, the connection counts as pooled, has no names, and needs every setting.
 */
export class Session {
  /** Follows `standard_conforming_strings`, of which each change is reported. */
  readonly strings = new StringSyntax()
  #address: Address | undefined
  #pooled = true
  #named = false
  #deviations = EVERY_SETTING
  #poolerSettings: readonly string[] = []

  /** The session of a connection. */
  static of(client: object): Session {
    const known = SESSIONS.get(client)
    if (known !== undefined) return known
    const session = new Session()
    SESSIONS.set(client, session)
    return session
  }

  /**
   * Asks a new connection about its session. The statement is the first one on it, and nobody has to wait for the
   * answer.
   *
   * @throws what the driver throws, except for an error that tells of a pooler.
   */
  async learn(client: pg.Client, address = new Address()): Promise<void> {
    this.#address = address
    try {
      await this.#ask(client, address)
    } catch (error) {
      if (!isAboutNames(error)) throw error
    }
    if (!this.#named) address.refuseNames()
  }

  /** There may be a pooler in front of the server: the server process is not the one that the driver knows. */
  get pooled(): boolean {
    return this.#pooled
  }

  /**
   * Whether statements may be prepared by name. A name belongs to a server session, and a pooler hands sessions around:
   * then a name is unknown, or taken, or belongs to another version's statement. So there are names only where the
   * session has shown that it is the connection's own, or that the pooler replaces names by its own.
   */
  get names(): boolean {
    return this.#named && this.#address?.takesNames === true
  }

  /** A statement with a name has failed. If the error is about names, others see ours: from here on we use none. */
  failed(error: unknown): void {
    if (isAboutNames(error)) this.#address?.refuseNames()
  }

  /** Which of the planner's settings the session has otherwise than our statements need. */
  get deviations(): readonly string[] {
    return this.#deviations
  }

  /** What the database has of deferrable constraints; undefined: this connection was never asked. */
  get constraints(): Constraints | undefined {
    return this.#address?.constraints
  }

  /**
   * The commands that set again what a pooler sets on server sessions for this connection. RESET ALL takes that away
   * too, and the pooler would not know: the server does not report a change that is undone within one message.
   */
  get poolerSettings(): readonly string[] {
    return this.#poolerSettings
  }

  /** Asks a pooled connection. What role and database set is left out: RESET ALL returns to that. */
  async learnPoolerSettings(client: pg.ClientBase): Promise<void> {
    const settings = await readPoolerSettings(async ({ text }) => {
      return (await client.query<Record<string, unknown>>(text)).rows
    })
    this.#poolerSettings = settings.map(({ name, value }) => `SET ${name} = ${pg.escapeLiteral(value)}`)
  }

  async #ask(client: pg.Client, address: Address): Promise<void> {
    const announced: unknown = Reflect.get(client, 'processID')
    const session = await readSession(async ({ text }, params) => {
      const { rows } = await queryAsText(client, { name: PROBE, text, values: [...params] })
      return rows
    }, PROBE)
    this.#pooled = session.pid !== announced
    this.#named = !this.#pooled || !session.knowsName
    this.#deviations = session.deviations
    this.strings.follow(client, session.conformingStrings)
    address.constraints.learned(session.deferrable)
  }
}

const SESSIONS = new WeakMap<object, Session>()

const PROBE = 'sluice_session'

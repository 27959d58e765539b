import { codeOf, INSUFFICIENT_PRIVILEGE, SCHEMA_OR_TABLE_MISSING } from './sql-state.ts'

/** As whom, and to what, a client of pg has connected. */
export interface Login {
  readonly user: string
  readonly database: string
  /** The name or the address of the server, or the folder of its socket. */
  readonly host: string
  readonly port: number
}

/** Remembers as whom a client of pg had connected that was refused something. */
export function noteLogin(error: unknown, client: object): void {
  if (!(error instanceof Error) || !REFUSALS.includes(codeOf(error) ?? '')) return
  const { user, database, host, port }: Partial<Record<keyof Login, unknown>> = client
  if (typeof user !== 'string' || typeof database !== 'string' || typeof host !== 'string') return
  LOGINS.set(error, { user, database, host, port: Number(port) })
}

/** As whom the client of a refusal had connected, if that is known: {@link noteLogin}. */
export function loginOf(error: unknown): Login | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < MOST_CAUSES; at = at.cause, depth++) {
    const login = LOGINS.get(at)
    if (login !== undefined) return login
  }
  return undefined
}

const LOGINS = new WeakMap<Error, Login>()
const MOST_CAUSES = 5
/** A privilege, or the schema, is missing. */
const REFUSALS: readonly string[] = [INSUFFICIENT_PRIVILEGE, ...SCHEMA_OR_TABLE_MISSING]

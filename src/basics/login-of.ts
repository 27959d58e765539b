import { codeOf, INSUFFICIENT_PRIVILEGE } from './sql-state.ts'

/** Remembers as whom a client of pg had connected that was refused something. */
export function noteLogin(error: unknown, client: object): void {
  if (!(error instanceof Error) || codeOf(error) !== INSUFFICIENT_PRIVILEGE) return
  const user: unknown = Reflect.get(client, 'user')
  if (typeof user === 'string') LOGINS.set(error, user)
}

/** As whom the client of a refusal had connected, if that is known: {@link noteLogin}. */
export function loginOf(error: unknown): string | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < MOST_CAUSES; at = at.cause, depth++) {
    const login = LOGINS.get(at)
    if (login !== undefined) return login
  }
  return undefined
}

const LOGINS = new WeakMap<Error, string>()
const MOST_CAUSES = 5

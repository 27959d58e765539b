import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** As whom to run a server's programs, in the form that `spawn` takes. Empty: as ourselves. */
export interface ServerUser {
  readonly uid?: number
  readonly gid?: number
}

/** Who is tried in place of root, as whom PostgreSQL does not run. */
const NAMES = ['postgres', 'nobody']

/** @throws Error if we are root and the machine knows no other user. */
export async function serverUser(): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return {}
  for (const name of NAMES) {
    const [uid, gid] = await Promise.all([idOf('-u', name), idOf('-g', name)])
    if (uid !== undefined && gid !== undefined) return { uid, gid }
  }
  throw new Error(`PostgreSQL does not run as root, and there is no user ${NAMES.join(' or ')} to run it as`)
}

async function idOf(which: '-u' | '-g', name: string): Promise<number | undefined> {
  const found = await promisify(execFile)('id', [which, name]).catch(() => undefined)
  return found === undefined ? undefined : Number(found.stdout)
}

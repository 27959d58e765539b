import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from '../../../server/temporary-folder.ts'

/** The login that has not all permissions. */
export const LOGIN = { user: 'limited', pass: 'secret' } as const

/** Arguments for a NATS server with {@link LOGIN}, which may not publish to a subject. Everybody else may do everything. */
export function withoutRightToPublish(subject: string): Promise<readonly string[]> {
  return withLogin(`publish: { deny: [${JSON.stringify(subject)}] }`)
}

/** The same, where it may not subscribe to a subject. */
export function withoutRightToSubscribe(subject: string): Promise<readonly string[]> {
  return withLogin(`subscribe: { deny: [${JSON.stringify(subject)}] }`)
}

async function withLogin(permissions: string): Promise<readonly string[]> {
  const folder = await temporaryFolder('sluice-nats-login-')
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'nats.conf')
  const users = `[
    { user: admin, password: secret }
    { user: ${LOGIN.user}, password: ${LOGIN.pass}, permissions: { ${permissions} } }
  ]`
  await writeFile(file, `no_auth_user: admin\nauthorization { users: ${users} }\n`)
  return ['-c', file]
}

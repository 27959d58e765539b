import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from '../../../server/temporary-folder.ts'

/** The login that may not publish to a subject. */
export const LOGIN = { user: 'limited', pass: 'secret' } as const

/** Arguments for a NATS server with {@link LOGIN}. Everybody else may do everything. */
export async function withoutRightToPublish(subject: string): Promise<readonly string[]> {
  const folder = await temporaryFolder('sluice-nats-login-')
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'nats.conf')
  const users = `[
    { user: admin, password: secret }
    { user: ${LOGIN.user}, password: ${LOGIN.pass}, permissions: { publish: { deny: ["${subject}"] } } }
  ]`
  await writeFile(file, `no_auth_user: admin\nauthorization { users: ${users} }\n`)
  return ['-c', file]
}

import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { test as base } from '../support/test.ts'
import { PROCESS_MS, waitFor } from '../support/wait.ts'

/** What one run has printed, and the command lines of all processes of the machine while its workers ran. */
const test = base.extend('demo', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const password = randomBytes(12).toString('hex')
  await database.sql(`CREATE ROLE ${name} SUPERUSER LOGIN PASSWORD '${password}'`)
  const url = Object.assign(new URL(database.url), { username: name, password }).href
  const main = fileURLToPath(new URL('../../demo/main.ts', import.meta.url))
  const env = { ...process.env, DATABASE_URL: url }
  const demo = spawn(process.execPath, [main, '--orders', '200', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onCleanup(() => void demo.kill('SIGKILL'))
  const printed = text(demo.stdout)
  const workers = async () => {
    const { stdout } = await promisify(execFile)('ps', ['-A', '-ww', '-o', 'args='])
    return stdout.includes('shop-worker') && stdout
  }
  const processes = await waitFor(workers, { what: 'the workers of the demo', timeoutMs: PROCESS_MS })
  const audit = JSON.parse(await printed) as Readonly<Record<string, number>>
  await database.sql(`DROP ROLE ${name}`)
  return { audit, processes, password }
})

test('the demo loses and doubles nothing, not even a mail, with a worker killed on the way', ({ demo: { audit } }) => {
  expect(audit).toMatchObject({ orders: 200, handled: 399, effects: 399, mails: 200, lost: 0, duplicated: 0 })
  // What a stream's group has added up of the events is what the orders say.
  expect(audit).toMatchObject({ reported: 200, misreported: 0 })
  // The service answers some calls with an error after it has sent the mail.
  expect(audit.askedAgain).toBeGreaterThan(0)
})

test('a password is in the arguments of no process that the demo starts', ({ demo: { processes, password } }) => {
  expect(processes).not.toContain(password)
})

import { expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { test } from '../../support/webhooks.ts'

test('sluice endpoint sets, lists, gets, tests, disables, enables, rotates and deletes', async ({
  database,
  queue,
  receiver,
}) => {
  const run = (...args: string[]) => runCli(['endpoint', ...args], { DATABASE_URL: database.url })
  const set = ['set', queue, 'crm', 'https://127.0.0.1/hook', '--owner', 'acme', '--types', 'a.b, c', '--ordered']
  expect((await run(...set)).stdout).toMatch(/^Endpoint created\.\nSecret: whsec_\S+\n$/)
  expect((await run(...set)).stdout).toBe('Unchanged.\n')
  expect((await run('list', queue)).stdout).toMatch(/^crm +acme +enabled +0 +0 +\S+ +https:\/\/127\.0\.0\.1\/hook$/m)
  expect(await run('list', queue, '--owner', 'other')).toMatchObject({ code: 0, stdout: '' })
  expect(await run('test', queue, 'crm')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Not delivered: Error: expected a public address, received 127.0.0.1'),
  })
  expect((await run('disable', queue, 'crm', '--reason', 'moved')).stdout).toBe('Disabled.\n')
  expect(JSON.parse((await run('get', queue, 'crm')).stdout)).toMatchObject({
    owner: 'acme',
    types: ['a.b', 'c'],
    ordered: true,
    state: 'disabled',
    disabledReason: 'moved',
  })
  expect((await run('set', queue, 'shop', `${receiver.url}/shop`, '--concurrency', '3')).stdout).toMatch(
    /^Endpoint created/,
  )
  expect(JSON.parse((await run('get', queue, 'shop')).stdout)).toMatchObject({ ordered: false, concurrency: 3 })
  const reach = ['--allow-http', '--ports', `8443,${receiver.port}`, '--networks', '127.0.0.0/8, fd00::/8']
  expect((await run('test', queue, 'shop', ...reach)).stdout).toMatch(/^Delivered: status 204 after \d+ ms\n$/)
  expect(await run('test', queue, 'shop', '--ports', '0')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Expected ports with commas between'),
  })
  expect(await run('test', queue, 'shop', '--networks', '10.1.0.0')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Expected networks with commas between'),
  })
  expect((await run('enable', queue, 'crm')).stdout).toBe('Enabled.\n')
  expect((await run('rotate', queue, 'crm', '--keep', '7d')).stdout).toMatch(/^Secret: whsec_\S+\n$/)
  expect(await run('enable', queue, 'cmr')).toMatchObject({ code: 1, stderr: expect.stringContaining('"crm"') })
  expect((await run('delete', queue, 'crm', '--yes')).stdout).toBe('Deleted.\n')
})

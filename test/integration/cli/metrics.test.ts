import { expect } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, test } from '../../support/sluice.ts'

test('sluice metrics prints gauges for Prometheus, or what they are made of', async ({ database, sluice, queue }) => {
  const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
  await put(sluice, queue, [1, 2])
  const { code, stdout, stderr } = await cli('metrics')
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toContain('# TYPE sluice_queue_due_messages gauge\n')
  expect(stdout).toContain(`sluice_queue_due_messages{queue="${queue}"} 2\n`)
  const json = await cli('metrics', '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({ queues: [{ queue, due: 2, leased: 0 }], groups: [] })
})

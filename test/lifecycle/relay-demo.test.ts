import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { programOnPath } from '../../faults/environment/program-on-path.ts'
import { test } from '../support/test.ts'

test('orders go through a relay, a cluster and an inbox once and in order, with a relay and a server killed on the way', async ({
  database,
  skip,
}) => {
  if ((await programOnPath('nats-server')) === undefined) skip('nats-server is not installed')
  const main = fileURLToPath(new URL('../../demo/relay/main.ts', import.meta.url))
  const env = { ...process.env, DATABASE_URL: database.url }
  const { stdout } = await promisify(execFile)(process.execPath, [main, '--orders', '500', '--json'], { env })
  expect(JSON.parse(stdout)).toEqual({ orders: 500, parcels: 500, lost: 0, doubled: 0, outOfOrder: 0 })
})

import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { HealthServer, type WorkHealth } from '../../../src/cli/work/health.ts'

const health: WorkHealth = {
  live: true,
  ready: true,
  status: 'running',
  connected: true,
  listening: true,
  lastPollMs: 12,
  queues: {},
  inboxes: {},
}

/** The status that a request line is answered with. */
async function statusOf(port: number, line: string): Promise<string | undefined> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.end(`${line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  return (await text(socket)).split(' ', 2)[1]
}

test.for([
  ['GET /healthz', '200'],
  ['GET /livez', '200'],
  ['GET /metrics', '200'],
  ['GET /readyz?verbose', '200'],
  ['GET /', '404'],
  ['GET //', '404'],
  ['GET //healthz/', '404'],
  ['GET http://[', '404'],
  ['GET http://localhost/healthz', '404'],
  ['OPTIONS *', '404'],
])('%s is answered with %s', async ([line = '', status]) => {
  await using server = await HealthServer.listen(
    { host: '127.0.0.1', port: 0 },
    {
      health: () => health,
      metrics: () => '',
    },
  )
  expect(await statusOf(server.port, line)).toBe(status)
})

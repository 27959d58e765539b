import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { serveHttp } from '../../support/http-server.ts'
import { put, test } from '../../support/sluice.ts'
import { deferred } from '../../support/wait.ts'

const WORKER = join(import.meta.dirname, '../../../examples/12-worker.py')
const TOKEN = 'a token of the test'

// There is nothing to show without Python.
describe.skipIf(spawnSync('python3', ['--version']).status !== 0)('workers in Python, by HTTP alone', () => {
  test('four processes side by side handle 101 messages, each once', async ({ database, sluice, queue }) => {
    let arrived = 0
    const all = deferred()
    const authorize = async (request: Request, { action, queue: asked }: { action: string; queue: string | null }) => {
      arrived += 1
      if (arrived === 4) all.resolve()
      // The first claim of each waits for those of the others, so each gets some of the messages.
      await all.promise
      return request.headers.get('authorization') === `Bearer ${TOKEN}` && action === 'claim' && asked === queue
    }
    const server = await serveHttp(createHttpHandler(sluice, { authorize }))
    const ids = await put(
      sluice,
      queue,
      Array.from({ length: 101 }, (_, at) => at),
    )
    const workers = await Promise.all(Array.from({ length: 4 }, () => runWorker(server, queue)))
    expect(workers.map(({ code, stderr }) => [code, stderr])).toEqual(workers.map(() => [0, '']))
    const handled = workers.map(({ stdout }) => [...stdout.matchAll(/^(\d+) /gm)].map(([, id]) => id))
    expect(handled.flat().sort()).toEqual(ids.toSorted())
    for (const own of handled) expect(own.length).toBeGreaterThanOrEqual(5)
    expect(await database.sql('SELECT id FROM sluice.messages WHERE queue = $1', [queue])).toEqual([])
  })
})

async function runWorker(server: string, queue: string) {
  const env = { PATH: process.env.PATH, QUEUE_TOKEN: TOKEN }
  const child = spawn('python3', [WORKER, server, queue, '--idle', '0s'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [code, stdout, stderr] = await Promise.all([exited, text(child.stdout), text(child.stderr)])
  return { code, stdout, stderr }
}

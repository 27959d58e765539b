import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { put, test } from '../../support/sluice.ts'

const INDEX = JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)

test('a worker loads pg-listen once its first claim is answered', async ({ database, sluice, queue }) => {
  await put(sluice, queue, [1])
  const program = workerOf(
    database.url,
    queue,
    `
    mock.timers.enable({ apis: ['setTimeout'] })
    await sluice.start()
    await listens.promise`,
  )
  expect(await printedBy(program)).toEqual(['handled', 'pg-listen'])
})

test('a worker whose queue is paused loads pg-listen, although it claims nothing', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1])
  await sluice.operate.queues.pause(queue)
  const program = workerOf(
    database.url,
    queue,
    `
    mock.timers.enable({ apis: ['setTimeout'] })
    await sluice.start()
    print('100 ms')
    mock.timers.tick(100)
    await listens.promise`,
  )
  expect(await printedBy(program)).toEqual(['100 ms', 'pg-listen'])
})

/**
 * A worker that prints that it has handled a message, and that it has loaded pg-listen, in order. Where timers are
 * mocked, its time stands still, so that nothing is loaded because a time has passed.
 */
function workerOf(url: string, queue: string, course: string): string {
  return `
    import { registerHooks } from 'node:module'
    import { mock } from 'node:test'
    import { createSluice } from ${INDEX}
    const order = new Set()
    const listens = Promise.withResolvers()
    const print = (line) => {
      order.add(line)
      if (line === 'pg-listen') listens.resolve()
    }
    registerHooks({
      load(url, context, nextLoad) {
        if (/node_modules.pg-listen/.test(url)) print('pg-listen')
        return nextLoad(url, context)
      },
    })
    const sluice = createSluice({ connection: ${JSON.stringify(url)}, log: false, pollInterval: '100ms' })
    sluice.pipeline(${JSON.stringify(queue)}).handle(() => print('handled')).start()
    ${course}
    mock.timers.reset()
    await sluice.stop({ timeout: 0 })
    console.log(JSON.stringify([...order]))
    process.exit()`
}

async function printedBy(program: string): Promise<unknown> {
  const args = ['--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 })
  return JSON.parse(stdout)
}

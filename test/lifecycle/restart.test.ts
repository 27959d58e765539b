import { expect, test } from 'vitest'
import type { EmbeddedServer } from '../../faults/environment/embedded-server.ts'
import { createEffects, effectsOf, enqueue } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { startRestartableServer } from '../support/servers/restartable-server.ts'
import { waitFor } from '../support/wait.ts'

test.for([
  { end: 'restarts', bringDown: (server: EmbeddedServer) => server.restart() },
  { end: 'crashes', bringDown: (server: EmbeddedServer) => server.crash() },
])('P4: when the server $end, no message counts a crash, and all workers go on', async ({ bringDown }) => {
  const server = await startRestartableServer()
  await createEffects(server)
  const ids = await enqueue(server, 'q', [{ wait: true }])
  const holder = await WorkerProcess.start(server, 'q')
  await holder.handling(ids[0]!)
  const idle = await WorkerProcess.start(server, 'q')
  await bringDown(server)

  // The holder's handler ends with its transaction, and either of the two gets the message again.
  await holder.event('batch.released')
  const attempts = () => [holder, idle].flatMap((worker) => worker.attemptsOf(ids[0]!))
  await waitFor(() => attempts().length === 2, { what: 'the second attempt' })
  expect(attempts()).toEqual([1, 1])
  for (const worker of [holder, idle]) worker.order('go')
  const isEmpty = async () => (await server.sql('SELECT FROM sluice.message')).length === 0
  await waitFor(isEmpty, { what: 'the message to be handled' })
  expect((await effectsOf(server, ids)).map(({ id }) => id)).toEqual(ids)
  expect(await server.sql('SELECT * FROM sluice.crash')).toEqual([])

  const more = await enqueue(
    server,
    'q',
    Array.from({ length: 40 }, () => ({ ms: 5 })),
  )
  await waitFor(isEmpty, { what: 'the queue to be empty' })
  expect((await effectsOf(server, more)).map(({ id }) => id)).toEqual(more)
  const areBack = async () => (await server.sql('SELECT FROM sluice.workers WHERE alive')).length === 2
  await waitFor(areBack, { what: 'both workers to be back' })
})

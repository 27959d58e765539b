/**
 * The program of a worker process: consumes a queue as its argument says, tells its parent what it does, and does to
 * each message what the payload asks for.
 */
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Handler } from '../../../src/handle/handler.ts'
import { createSluice } from '../../../src/sluice.ts'
import type { WorkerNews, WorkerOrders, WorkerPayload, WorkerSetup } from './worker-process.ts'

const setup = JSON.parse(process.argv[2] ?? '') as WorkerSetup
const orders = new EventEmitter()
const sluice = createSluice(setup.sluice)

process.on('message', (order: WorkerOrders) => void orders.emit(order))
process.on('disconnect', () => process.exit())
sluice.events.subscribe((event) => {
  void tell({ kind: 'event', event: event.kind })
})
orders.once('stop', stop)

const handle: Handler<WorkerPayload> = async ({ id, payload }, { tx, attempt, signal }) => {
  await tx.query('INSERT INTO effect (message_id, worker) VALUES ($1, $2)', [id, setup.sluice.name])
  const go = payload.wait ? once(orders, 'go', { signal }) : undefined
  await tell({ kind: 'handling', id, attempt })
  await go
  if (payload.ms !== undefined) await sleep(payload.ms)
  if (payload.kill) process.kill(process.pid, 'SIGKILL')
}

const handleLeased: Handler<WorkerPayload, undefined, 'leased'> = async (message, { transaction, attempt, signal }) => {
  const { id, payload } = message
  const go = payload.wait ? once(orders, 'go', { signal }) : undefined
  await tell({ kind: 'handling', id, attempt })
  if (payload.kill) process.kill(process.pid, 'SIGKILL')
  await go
  if (payload.ms !== undefined) await sleep(payload.ms)
  await transaction((tx) =>
    tx.query('INSERT INTO effect (message_id, worker) VALUES ($1, $2)', [id, setup.sluice.name]),
  )
}

if (setup.pipeline.mode === 'leased') {
  sluice
    .pipeline(setup.queue, setup.pipeline)
    .handle(handleLeased as Handler<unknown, undefined, 'leased'>)
    .start()
} else {
  sluice
    .pipeline(setup.queue, setup.pipeline)
    .handle(handle as Handler<unknown>)
    .start()
}

async function stop(): Promise<void> {
  await sluice.stop()
  // Nothing of Sluice may keep the process alive from here on, and nothing else does.
  process.removeAllListeners('disconnect')
  process.disconnect()
}

/** Resolves when the news is on its way: then the process may be killed. */
async function tell(news: WorkerNews): Promise<void> {
  if (process.connected) await new Promise((sent) => process.send?.(news, sent))
}

/** The module that a process of `sluice work` loads: the same worker, as a user of the command line would write it. */
import { defineWorker, type Handler } from '../../src/index.ts'
import { playWorker } from './worker-part.ts'

const { setup, sluice, ledger, handlers } = await playWorker()
// The command ends by itself, when nothing is open any more.
process.channel?.unref()
sluice.events.subscribe(({ kind }) => {
  if (kind === 'worker.stopped') void ledger.end()
})

const { queue, pipeline } = setup

export const worker = defineWorker(sluice, {
  [queue]:
    pipeline.mode === 'leased'
      ? { ...pipeline, mode: 'leased', handle: handlers.handleLeased as Handler<unknown, undefined, 'leased'> }
      : { ...pipeline, mode: 'transactional', handle: handlers.handle as Handler },
})

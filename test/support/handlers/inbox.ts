/** For `sluice work`: an inbox of a queue with a handler, and one of a queue that others handle, from brokers in memory. */
import { defineWorker } from '../../../src/index.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'

function broker(name: string, ...ids: readonly string[]): MemoryReceiver {
  const from = new MemoryReceiver()
  from.deliver(...ids.map((id) => ({ id, payload: id })))
  from.onAck = (messages) => void process.stdout.write(`${name} acks ${messages.map(({ id }) => id).join()}\n`)
  return from
}

export const worker = defineWorker({
  jobs: {
    mode: 'transactional',
    inbox: { from: broker('jobs', 'a', 'b', 'a') },
    handle: async ({ payload }) => void process.stdout.write(`handles ${payload}\n`),
  },
  kept: { inbox: { from: broker('kept', 'c') } },
})

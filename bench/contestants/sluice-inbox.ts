import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import { MemoryReceiver } from '../../src/testing.ts'
import type { Contestant, Enqueuer, Payload, Writer } from '../contestant.ts'
import { messageTable } from './message-table.ts'

export const sluiceInbox: Contestant = {
  name: 'sluice-inbox',
  title: `Sluice ${VERSION}, inbox`,
  guarantee: 'A copy of a message is dropped for seven days; acked after the COMMIT that enqueues it',
  onlyIn: 'inbox',
  ...messageTable,
  tables: [...messageTable.tables, 'sluice.receipt'],
  enqueues: {
    configuration: 'inbox(queue, { from }), all else as it comes; its messages come from memory',
    run: async (url) => receive(url),
  },
}

function receive(url: string): Enqueuer {
  const library = createSluice({ connection: url, log: false })
  library.events.subscribe((event) => {
    if (event.kind === 'inbox.unavailable') throw new Error(event.error)
  })
  return {
    open: async () => {
      const from = new MemoryReceiver()
      library.inbox('bench', { from }).start()
      return writerTo(from)
    },
    stop: () => library.stop(),
  }
}

/** A batch is written when all of it has been acked. */
function writerTo(from: MemoryReceiver): Writer {
  let sent = 0
  const deliver = async (messages: readonly Payload[]) => {
    let left = messages.length
    const done = Promise.withResolvers<void>()
    from.onAck = (acked) => {
      left -= acked.length
      if (left === 0) done.resolve()
    }
    from.deliver(...messages.map((payload) => ({ id: `bench/${++sent}`, payload })))
    await done.promise
    from.acked.length = 0
  }
  return { enqueue: (message) => deliver([message]), enqueueMany: deliver, close: async () => undefined }
}

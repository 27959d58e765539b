import { createSluice, type HandlerContext, type Message } from '../../src/index.ts'
import { VERSION } from '../../src/version.ts'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { messageTable } from './message-table.ts'

export const sluice: Contestant = {
  name: 'sluice',
  title: `Sluice ${VERSION}, transactional`,
  guarantee:
    'Claim, handlers and settlement are one transaction: if the process dies, its messages are free at once, and ' +
    'their effects in the database happen exactly once',
  ...messageTable,
  consumes: {
    configuration: 'pipeline(queue, { batchSize, concurrency }), all else as it comes',
    run: consume,
  },
}

async function consume(url: string, spec: ConsumeSpec): Promise<Consumer> {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') spec.onSettled(event.acked)
    if (event.kind === 'message.failed') throw new Error(event.error)
  })
  const pipeline = library.pipeline('bench', { batchSize: spec.batchSize, concurrency: spec.inFlight })
  handle(pipeline, spec.work).subscribe()
  return { stop: () => library.stop() }
}

function handle(pipeline: ReturnType<ReturnType<typeof createSluice>['pipeline']>, work: ConsumeSpec['work']) {
  switch (work.kind) {
    case 'nothing':
      return pipeline.handle(() => {})
    case 'insert each':
      return pipeline.handle(async (message: Message, { tx }: HandlerContext) => {
        await tx.query(INSERT_EFFECT, [message.id])
      })
    case 'insert batch':
      return pipeline.handleBatch(async (messages, { tx }) => {
        await tx.query(INSERT_EFFECTS, [messages.map((message) => message.id)])
      })
  }
}

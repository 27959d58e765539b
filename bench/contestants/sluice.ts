import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import type { Consumer, ConsumeSpec, Contestant, Enqueuer, ListenSpec, Payload } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { messageTable } from './message-table.ts'
import { openWriter } from './writer.ts'

export const sluice: Contestant = {
  name: 'sluice',
  title: `Sluice ${VERSION}`,
  guarantee:
    'Claim, handlers and settlement are one transaction: if the process dies, its messages are free at once, and ' +
    'their effects in the database happen exactly once',
  ...messageTable,
  keepsOrder: true,
  consumes: { configuration: 'pipeline(queue, { batchSize, concurrency }), all else as it comes', run: consume },
  listens: { configuration: 'pipeline(queue, { batchSize, concurrency }), all else as it comes', run: listen },
  enqueues: { configuration: "enqueue(client, queue, payload) in the application's transaction", run: enqueue },
  idles: { configuration: 'a pipeline per queue, all as it comes', run: idle },
}

type Pipeline = ReturnType<ReturnType<typeof createSluice>['pipeline']>

async function consume(url: string, spec: ConsumeSpec): Promise<Consumer> {
  return start(url, spec, (pipeline) => {
    switch (spec.work) {
      case 'nothing':
        return pipeline.handle(() => {})
      case 'insert each':
        return pipeline.handle(async (message, { tx }) => {
          await tx.query(INSERT_EFFECT, [message.id])
        })
      case 'insert batch':
        return pipeline.handleBatch(async (messages, { tx }) => {
          await tx.query(INSERT_EFFECTS, [messages.map((message) => message.id)])
        })
    }
  })
}

export async function listen(url: string, spec: ListenSpec): Promise<Consumer> {
  return start(url, spec, (pipeline) => pipeline.handle((message) => spec.handle(message.payload as Payload)))
}

function start(
  url: string,
  spec: Pick<ConsumeSpec, 'batchSize' | 'inFlight' | 'onSettled'>,
  handle: (pipeline: Pipeline) => ReturnType<Pipeline['handle']>,
): Consumer {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') spec.onSettled(event.acked)
    if (event.kind === 'message.failed') throw new Error(event.error)
  })
  handle(library.pipeline('bench', { batchSize: spec.batchSize, concurrency: spec.inFlight })).subscribe()
  return { stop: () => library.stop() }
}

export async function enqueue(url: string): Promise<Enqueuer> {
  const library = createSluice({ connection: url })
  return {
    open: () =>
      openWriter(url, {
        one: (client, message) => library.enqueue(client, 'bench', message),
        many: (client, messages) =>
          library.enqueueMany(
            client,
            'bench',
            messages.map((payload) => ({ payload })),
          ),
      }),
    stop: () => library.stop(),
  }
}

async function idle(url: string, queues: number): Promise<Consumer> {
  const library = createSluice({ connection: url })
  for (let queue = 1; queue <= queues; queue++) {
    library
      .pipeline(`idle-${queue}`)
      .handle(() => {})
      .subscribe()
  }
  return { stop: () => library.stop() }
}

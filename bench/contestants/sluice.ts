import { VERSION } from '../../src/basics/version.ts'
import { createSluice } from '../../src/index.ts'
import type { Consumer, ConsumeSpec, Contestant, Enqueuer, LeaseSpec, ListenSpec, Payload } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { messageTable } from './message-table.ts'
import { append, fillStream, follow, installStream, STREAM_TABLES, unreadEvents } from './sluice-stream.ts'
import { openWriter } from './writer.ts'

export const sluice: Contestant = {
  name: 'sluice',
  title: `Sluice ${VERSION}`,
  guarantee:
    'Transactional: claim, handlers and settlement are one transaction; if the process dies, its messages are free at ' +
    'once, and their effects in the database happen exactly once. Leased: the claim commits before the handler runs; if ' +
    'the process dies, its messages are free within about a second while another one runs, and effects happen at least ' +
    'once, or exactly once through transaction()',
  ...messageTable,
  install: async (url) => {
    await messageTable.install(url)
    await installStream(url)
  },
  tables: [...messageTable.tables, ...STREAM_TABLES],
  fill: (client, spec) => (spec.log === undefined ? messageTable.fill : fillStream)(client, spec),
  unsettled: async (client) => (await messageTable.unsettled(client)) + (await unreadEvents(client)),
  keepsOrder: true,
  consumes: {
    configuration: 'pipeline(queue, { batchSize, concurrency }), all else as it comes',
    run: async (url, spec) => consume(createSluice({ connection: url }), spec),
  },
  leases: {
    configuration:
      "pipeline(queue, { mode: 'leased', batchSize, concurrency: the messages in flight }), all else as it comes",
    run: async (url, spec) => lease(createSluice({ connection: url }), spec),
  },
  listens: {
    configuration:
      "pipeline(queue, { batchSize, concurrency }), all else as it comes; with handlers that wait, pipeline(queue, { mode: 'leased', " +
      'concurrency: the handlers at a time }), all else as it comes',
    run: listen,
  },
  enqueues: { configuration: "enqueue(client, queue, payload) in the application's transaction", run: enqueue },
  appends: { configuration: "append(client, stream, payload) in the application's transaction", run: append },
  follows: {
    configuration: 'a pipeline(stream, { group, batchSize, concurrency: the members }) per group, all else as it comes',
    run: follow,
  },
  idles: { configuration: 'a pipeline per queue, all as it comes', run: idle },
}

type Library = ReturnType<typeof createSluice>
type Pipeline = ReturnType<typeof pipelineOf>

/** By a library that has just been created: this one, or an earlier one. */
export function consume(library: Library, spec: ConsumeSpec): Consumer {
  return start(library, spec, (pipeline) => {
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
  const library = createSluice({ connection: url })
  const { atOnce, handle } = spec
  if (atOnce !== undefined) return lease(library, { inHand: atOnce, handle, onSettled: spec.onSettled })
  return start(library, spec, (pipeline) => pipeline.handle((message) => handle(message.payload as Payload)))
}

function lease(
  library: Library,
  { batchSize, inHand, leaseMs, handle, onSettled }: Omit<LeaseSpec, 'batchSize'> & Partial<LeaseSpec>,
): Consumer {
  report(library, onSettled)
  library
    .pipeline('bench', { mode: 'leased', batchSize, concurrency: inHand, lease: leaseMs })
    .handle(handle === undefined ? () => {} : (message) => handle(message.payload as Payload))
    .subscribe()
  return { stop: () => library.stop() }
}

function pipelineOf(library: Library, { batchSize, inFlight }: Pick<ConsumeSpec, 'batchSize' | 'inFlight'>) {
  return library.pipeline('bench', { batchSize, concurrency: inFlight })
}

function start(
  library: Library,
  spec: Pick<ConsumeSpec, 'batchSize' | 'inFlight' | 'onSettled'>,
  handle: (pipeline: Pipeline) => ReturnType<Pipeline['handle']>,
): Consumer {
  report(library, spec.onSettled)
  handle(pipelineOf(library, spec)).subscribe()
  return { stop: () => library.stop() }
}

function report(library: Library, onSettled: ConsumeSpec['onSettled']): void {
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') onSettled(event.acked)
    if (event.kind === 'message.failed') throw new Error(event.error)
  })
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

async function idle(url: string, queues: number, leased: boolean): Promise<Consumer> {
  const library = createSluice({ connection: url })
  for (let queue = 1; queue <= queues; queue++) {
    const name = `idle-${queue}`
    const pipeline = leased ? library.pipeline(name, { mode: 'leased' }) : library.pipeline(name)
    pipeline.handle(() => {}).subscribe()
  }
  return { stop: () => library.stop() }
}

import { VERSION } from '../../src/basics/version.ts'
import { createSluice, type Destination } from '../../src/index.ts'
import type { Consumer, ConsumeSpec, Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { loopByHand } from './raw-loop.ts'

/** What relays publish to, and how. */
export interface RelayTask {
  /** The contestants are `sluice-<name>` and `raw-loop-<name>`. */
  readonly name: string
  /** The cell that asks them. */
  readonly cell: string
  /** The destination, in words. */
  readonly destination: string
  /** How a batch is published by hand, in words. */
  readonly byHand: string
  /** What happens by hand beside the failure of a batch. */
  readonly loss?: string
  /** Starts a server of the sample's own, which stores what it confirms. */
  readonly start: () => Promise<RelayServer>
}

/** A server that runs. */
export interface RelayServer {
  readonly to: Destination
  /** Connects with the same client, as it comes. */
  connect(): Promise<Publisher>
  stop(): Promise<void>
}

export interface Publisher {
  /** Resolves when the server has confirmed the message. */
  publish(id: string, payload: string): Promise<unknown>
  close(): Promise<void>
}

export function relayBy({ name, cell, destination, start }: RelayTask): Contestant {
  return {
    name: `sluice-${name}`,
    title: `Sluice ${VERSION}`,
    guarantee: 'A row goes in the transaction of its batch, after the confirm; in order of each key',
    onlyIn: cell,
    ...messageTable,
    keepsOrder: true,
    consumes: {
      configuration: `relay(queue, { to: ${destination}, batchSize, concurrency }), all else as it comes`,
      run: (url, spec) => withServer(start, async ({ to }) => relayTo(to, url, spec)),
    },
  }
}

export function relayByHand({ name, cell, byHand, loss, start }: RelayTask): Contestant {
  return {
    name: `raw-loop-${name}`,
    title: 'By hand',
    guarantee:
      'A row goes in the transaction of its batch, after the confirm; the first that fails stops its batch for ever' +
      (loss === undefined ? '' : `, and ${loss}`),
    onlyIn: cell,
    ...messageTable,
    fill: (client, { keys: _, ...spec }) => messageTable.fill(client, spec),
    consumes: {
      configuration: `the loop by hand; ${byHand} for each message of a batch, without waiting in between, then all confirms`,
      run: (url, spec) => withServer(start, async (server) => publishByHand(await server.connect(), url, spec)),
    },
  }
}

function relayTo(to: Destination, url: string, { batchSize, inFlight, onSettled }: ConsumeSpec): Consumer {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') onSettled(event.acked)
    if (event.kind === 'relay.unavailable') throw new Error(event.error)
  })
  library.relay('bench', { to, batchSize, concurrency: inFlight }).start()
  return { stop: () => library.stop() }
}

async function publishByHand(publisher: Publisher, url: string, spec: ConsumeSpec): Promise<Consumer> {
  const loop = await loopByHand(url, {
    ...spec,
    work: async (_, rows) => {
      await Promise.all(rows.map(({ id, payload }) => publisher.publish(id, payload)))
    },
  })
  return stopping(
    () => loop.stop(),
    () => publisher.close(),
  )
}

async function withServer(
  start: RelayTask['start'],
  consume: (server: RelayServer) => Promise<Consumer>,
): Promise<Consumer> {
  const server = await start()
  const consumer = await consume(server)
  return stopping(
    () => consumer.stop(),
    () => server.stop(),
  )
}

/** One after another. */
function stopping(...stops: readonly (() => Promise<void>)[]): Consumer {
  return {
    stop: async () => {
      for (const stop of stops) await stop()
    },
  }
}

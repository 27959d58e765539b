import { fileURLToPath } from 'node:url'
import { Actor } from '../actors/actor.ts'
import type { Load, ProducerNews, ProducerOrder } from '../actors/producer-process.ts'
import type { Go, WorkerNews, WorkerOrder, WorkerSetup } from '../actors/worker-orders.ts'
import { TcpProxy } from '../environment/tcp-proxy.ts'
import { GROUPS } from '../ledger.ts'
import type { Edit } from '../twins/twins.ts'
import type { Environment } from './environment.ts'
import { type Mode, type ModeName, modeNamed } from './modes.ts'
import type { WorkerOptions } from './scenario.ts'
import { until } from './until.ts'

export interface FleetOptions {
  readonly environment: Environment
  readonly queue: string
  readonly seed: number
  /** Changes of the workers' library. */
  readonly edits: readonly Edit[] | undefined
  readonly load: Load
  readonly workers: WorkerOptions
  readonly mode: Mode
}

/** A worker process, with the network between it and the server if it has one of its own. */
export interface WorkerActor {
  readonly actor: Actor<WorkerOrder, WorkerNews>
  readonly network: TcpProxy | undefined
  readonly mode: ModeName
}

/** What is otherwise with one worker. */
type WorkerChange = Partial<WorkerSetup> & { readonly edits?: readonly Edit[]; readonly mode?: ModeName }

/** The network between a worker and the server. @throws Error if the scenario's workers have none. */
export function networkOf({ actor, network }: WorkerActor): TcpProxy {
  if (network === undefined) throw new Error(`${actor.name} has no network of its own`)
  return network
}

/** The processes of a scenario. */
export class Fleet {
  readonly #options: FleetOptions
  readonly #all: WorkerActor[] = []
  #producer: Actor<ProducerOrder, ProducerNews> | undefined
  #producers = 0
  #begun = 0
  #stopping = false
  /** What held handlers have been told, for those who come later. */
  readonly #going: Go[] = []
  /** The producer's network. */
  producerNetwork: TcpProxy | undefined

  constructor(options: FleetOptions) {
    this.#options = options
  }

  /** Those that have not ended. */
  get workers(): readonly WorkerActor[] {
    return this.#all.filter(({ actor }) => !actor.hasEnded)
  }

  get producer(): Actor<ProducerOrder, ProducerNews> | undefined {
    return this.#producer
  }

  /** Lets the handlers that hold these attempts of messages go on, and all that will. */
  go(...going: readonly Go[]): void {
    this.#going.push(...going)
    for (const { actor } of this.workers) actor.order({ kind: 'go', going })
  }

  /** Starts the workers, and then, when they consume, the producer. */
  async start(): Promise<void> {
    await Promise.all(Array.from({ length: this.#options.workers.count ?? 2 }, () => this.startWorker()))
    await this.startProducer()
  }

  async startWorker(change: WorkerChange = {}): Promise<WorkerActor> {
    const { environment, queue, workers } = this.#options
    const { edits = this.#edits, mode = this.#nextMode(), ...changed } = change
    this.#begun += 1
    const name = `worker ${this.#begun}`
    const network = workers.network ? await TcpProxy.start(environment.url) : undefined
    const actor = this.#workerActor(name, edits)
    const worker = { actor, network, mode }
    this.#all.push(worker)
    const { pipeline, pollIntervalMs, maintenanceIntervalMs, wholeBatches, effects, lingerMs, flakySdk } = workers
    const setup: WorkerSetup = {
      name,
      url: network?.url ?? environment.url,
      directUrl: network?.url ?? environment.directUrl,
      ledgerUrl: environment.ledgerUrl,
      queue,
      outside: environment.outside,
      pipeline: { ...PIPELINE, ...modeNamed(mode).pipeline, ...pipeline },
      pollIntervalMs,
      maintenanceIntervalMs,
      wholeBatches,
      effects,
      lingerMs,
      flakySdk,
      going: this.#going,
      groups: mode === 'stream' ? GROUPS : undefined,
      ...changed,
    }
    actor.order({ kind: 'start', setup })
    if (workers.kept) void actor.ended.then(() => this.#keep(worker, change))
    await actor.told('consuming', 'consume')
    return worker
  }

  get #edits(): readonly Edit[] | undefined {
    const { edits, workers } = this.#options
    return workers.edits === undefined ? edits : [...workers.edits, ...(edits ?? [])]
  }

  #workerActor(name: string, edits: readonly Edit[] | undefined): Actor<WorkerOrder, WorkerNews> {
    if (this.#options.workers.program === undefined)
      return new Actor(new URL('../actors/worker-process.ts', import.meta.url), { name, edits })
    const module = fileURLToPath(new URL('../actors/work-process.ts', import.meta.url))
    return new Actor(new URL('../../src/cli/main.ts', import.meta.url), { name, edits, args: ['work', module] })
  }

  /** One that ends before the fleet does has a successor. Its death may be the fault: then that is not news. */
  async #keep(ended: WorkerActor, change: WorkerChange): Promise<void> {
    if (this.#stopping) return
    await ended.network?.stop()
    await this.startWorker(change).catch(() => undefined)
  }

  /** With both modes, the one that fewer workers have. */
  #nextMode(): ModeName {
    const { mode, workers } = this.#options
    if (!workers.bothModes) return mode.name
    const count = (name: ModeName) => this.workers.filter((worker) => worker.mode === name).length
    const [first = mode.name] = BOTH_MODES.toSorted((a, b) => count(a) - count(b))
    return first
  }

  async startProducer(change: Partial<Load> = {}): Promise<void> {
    const { environment, queue, seed, load, workers } = this.#options
    this.producerNetwork ??= workers.network ? await TcpProxy.start(environment.url) : undefined
    const program = new URL('../actors/producer-process.ts', import.meta.url)
    const producer = new Actor<ProducerOrder, ProducerNews>(program, { name: 'producer' })
    this.#producer = producer
    this.#producers += 1
    const setup = {
      url: this.producerNetwork?.url ?? environment.url,
      ledgerUrl: environment.ledgerUrl,
      queue,
      outside: environment.outside,
      seed: seed + this.#producers,
      load: { ...load, ...change },
    }
    producer.order({ kind: 'start', setup })
    await producer.told('flowing', 'enqueue')
  }

  /** Resolves when the producer has come to know how its last transactions ended. */
  async stopProducer(): Promise<void> {
    const producer = this.#producer
    if (producer === undefined || producer.hasEnded) return
    producer.order({ kind: 'stop' })
    await producer.told('done', 'stop', 60_000)
    await producer.ended
  }

  /** Stops all workers gracefully. */
  async stopWorkers(): Promise<void> {
    this.#stopping = true
    const end = this.#options.workers.program === undefined ? stop : drain
    await Promise.all(this.workers.map(({ actor }) => end(actor)))
  }

  /** Ends whatever still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true
    await Promise.all([this.#producer, ...this.#all.map(({ actor }) => actor)].map((actor) => actor?.kill()))
    await Promise.all(
      [this.producerNetwork, ...this.#all.map(({ network }) => network)].map((network) => network?.stop()),
    )
  }
}

const BOTH_MODES = ['transactional', 'leased'] as const

/** Small batches and short limits: many transactions, and no long waits for what hangs. */
const PIPELINE = {
  concurrency: 2,
  batchSize: 5,
  timeout: '1s',
  retry: { kind: 'fixed', delay: 50 },
} as const

async function stop(actor: Actor<WorkerOrder, WorkerNews>): Promise<void> {
  actor.order({ kind: 'stop' })
  await actor.told('stopped', 'stop', STOP_MS)
  await actor.ended
}

/** As an orchestrator ends a process. @throws Error unless it exits with 0 */
async function drain(actor: Actor<WorkerOrder, WorkerNews>): Promise<void> {
  actor.signal('SIGTERM')
  await until(() => actor.hasEnded, `${actor.name} to end`, STOP_MS)
  const code = await actor.ended
  if (code !== 0) throw new Error(`${actor.name} ended with ${code}`)
}

const STOP_MS = 40_000

import { startTimer } from '../basics/time/start-timer.ts'
import type { BatchPools } from './batch-pools.ts'
import type { Pulse } from './health.ts'
import type { Shared } from './shared.ts'
import { Worker } from './worker.ts'

/**
 * Creates and stops the worker of a process. After `start()` it runs until `stop()`. `runOnce` calls share one, which
 * is stopped 100 ms after the last of them, because its connections would keep the process alive.
 */
export class CurrentWorker {
  readonly #create: () => Worker
  #worker: Worker
  #stays = false
  #guests = 0
  #leaving: NodeJS.Timeout | undefined
  readonly #going = new Map<Worker, Promise<void>>()

  constructor(shared: Shared, pools: BatchPools) {
    this.#create = () => new Worker(shared, pools)
    this.#worker = this.#create()
  }

  /** Its connections now. */
  get pulse(): Pulse {
    return this.#worker.pulse
  }

  /** Starts the worker until `stop()`. @throws SluiceError as {@link Worker.start} */
  start(): Promise<void> {
    return this.visit(async () => this.#stay())
  }

  /** As {@link start}, waiting for a database that is down. @throws SluiceError as {@link Worker.startPatiently} */
  async startPatiently(signal: AbortSignal): Promise<Worker> {
    return this.#asGuest(async (worker) => {
      await worker.startPatiently(signal)
      this.#stay()
      return worker
    })
  }

  /** Starts the worker for as long as the work takes. @throws SluiceError as {@link Worker.start} */
  visit<T>(work: (worker: Worker) => Promise<T>): Promise<T> {
    return this.#asGuest(async (worker) => {
      await worker.start()
      return work(worker)
    })
  }

  /** The pipelines must have ended. */
  async stop(): Promise<void> {
    this.#stay()
    await Promise.all([...this.#going.values(), this.#worker.stop()])
  }

  cut(): void {
    for (const worker of [...this.#going.keys(), this.#worker]) worker.cut()
  }

  /** An attempt to start it until `stop()` is a guest until it succeeds: if it fails, the worker must not stay. */
  async #asGuest<T>(work: (worker: Worker) => Promise<T>): Promise<T> {
    clearTimeout(this.#leaving)
    this.#guests += 1
    try {
      return await work(this.#worker)
    } finally {
      this.#guests -= 1
      if (this.#guests === 0 && !this.#stays) this.#leaving = startTimer(() => this.#letGo(), LINGER_MS)
    }
  }

  #stay(): void {
    this.#stays = true
    clearTimeout(this.#leaving)
  }

  #letGo(): void {
    const worker = this.#worker
    // A stopped worker cannot be started again.
    this.#worker = this.#create()
    // No caller waits for it here, so an error must not end the process.
    const gone = () => void this.#going.delete(worker)
    this.#going.set(worker, worker.stop().then(gone, gone))
  }
}

/** Long enough for another `runOnce` right after, as in tests, and short for a process that is about to end. */
const LINGER_MS = 100

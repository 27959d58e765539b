import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** The demo's worker processes. One of them dies on the way. */
export class WorkerPool {
  readonly #url: string
  readonly #workers = new Set<ChildProcess>()
  #killed = 0

  constructor(url: string) {
    this.#url = url
  }

  get running(): number {
    return this.#workers.size
  }

  get killed(): number {
    return this.#killed
  }

  /** Starts worker processes, and resolves when they are connected. */
  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#startOne()))
  }

  /** Kills one worker, without warning, while a handler of its has written and not committed; then replaces it. */
  async killOneInMidBatch(): Promise<void> {
    const [victim] = this.#workers
    if (victim === undefined) return
    const inBatch = new Promise<void>((resolve) => {
      victim.on('message', (message) => message === 'in the middle of a batch' && resolve())
      victim.once('exit', () => resolve())
    })
    victim.send('wait to be killed')
    // With very few orders the others may have taken all: then it dies idle.
    await Promise.race([inBatch, sleep(3_000)])
    victim.kill('SIGKILL')
    this.#killed += 1
    await this.#startOne()
  }

  /** Lets all workers drain and end. */
  async stop(): Promise<void> {
    await Promise.all(
      [...this.#workers].map(async (worker) => {
        const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
        if (worker.connected) worker.send('stop')
        await exited
      }),
    )
  }

  async #startOne(): Promise<void> {
    // Others on the machine can see the arguments of a process, and not its environment.
    const env = { ...process.env, DATABASE_URL: this.#url }
    const worker = fork(new URL('./shop-worker.ts', import.meta.url), {
      env,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#workers.add(worker)
    worker.once('exit', () => this.#workers.delete(worker))
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve())
      worker.once('exit', (code) => reject(new Error(`A worker ended early, with code ${code}`)))
    })
  }
}

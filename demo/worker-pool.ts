import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** The demo's worker processes. One of them dies on the way. */
export class WorkerPool {
  readonly #env: Readonly<Record<string, string>>
  readonly #workers = new Set<ChildProcess>()
  #killed = 0

  /** @param env for the workers: others on the machine can see the arguments of a process, and not its environment */
  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env
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

  /**
   * Kills one worker, without warning, while one of its handlers has written and not committed, another has sent a mail and
   * not settled its message, and a third has added an order to the report; then replaces it.
   */
  async killOneAtWork(): Promise<void> {
    const [victim] = this.#workers
    if (victim === undefined) return
    const moments = WORST_MOMENTS.map(
      (moment) =>
        new Promise<void>((resolve) => {
          victim.on('message', (message) => message === moment && resolve())
          victim.once('exit', () => resolve())
        }),
    )
    victim.send('wait to be killed')
    // With very few orders the others may have taken all: then it dies idle.
    await Promise.race([Promise.all(moments), sleep(3_000)])
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
    const env = { ...process.env, ...this.#env }
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

const WORST_MOMENTS = ['in the middle of a batch', 'between a mail and its settlement', 'in the middle of the report']

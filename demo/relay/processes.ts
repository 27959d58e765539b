import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** The processes that run beside the shop: they publish, receive and handle. */
export class Processes {
  readonly #running = new Set<ChildProcess>()

  /** Starts one. Resolves when it runs. Returns what kills it, without warning. */
  async start(role: 'relay' | 'warehouse', env: Readonly<Record<string, string>>): Promise<() => Promise<void>> {
    const program = new URL('./site-process.ts', import.meta.url)
    const child = fork(program, [role], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#running.add(child)
    child.once('exit', () => this.#running.delete(child))
    await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`A process ended early, with code ${code}`))),
    ])
    return async () => {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    }
  }

  /** Lets all of them end what they are at. */
  async stop(): Promise<void> {
    await Promise.all(
      [...this.#running].map(async (child) => {
        const exited = once(child, 'exit')
        child.send('stop')
        await exited
      }),
    )
  }
}

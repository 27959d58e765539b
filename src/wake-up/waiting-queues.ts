import { WaitingQueue, type WaitingQueueOptions } from './waiting-queue.ts'

/** What the demands of a process wait for, by name: its queues, those of groups among them, and the streams of groups. */
export class WaitingQueues {
  readonly #options: WaitingQueueOptions
  readonly #byName = new Map<string, WaitingQueue>()

  constructor(options: WaitingQueueOptions) {
    this.#options = options
  }

  get all(): readonly WaitingQueue[] {
    return [...this.#byName.values()]
  }

  /** The queues that this process consumes, those of groups among them. */
  get consumed(): readonly string[] {
    return this.all.map(({ name }) => name).filter((name) => !isStream(name))
  }

  /** Those with a waiter that sleeps. */
  get asleep(): { readonly queues: readonly string[]; readonly streams: readonly string[] } {
    const names = this.all.filter((queue) => queue.asleep.size > 0).map(({ name }) => name)
    return {
      queues: names.filter((name) => !isStream(name)),
      streams: names.filter(isStream).map((name) => name.slice(1)),
    }
  }

  /** How many connections their waiters may use at a time. */
  get connections(): number {
    const waiters = this.all.flatMap((queue) => [...queue.waiters])
    return waiters.reduce((sum, { connections = 0 }) => sum + connections, 0)
  }

  get(name: string): WaitingQueue | undefined {
    return this.#byName.get(name)
  }

  ofStream(stream: string): WaitingQueue | undefined {
    return this.get(wakeNameOf(stream))
  }

  /** The one of this name, made if it is not there. */
  of(name: string): WaitingQueue {
    let queue = this.get(name)
    if (queue === undefined) {
      queue = new WaitingQueue(name, this.#options)
      this.#byName.set(name, queue)
    }
    return queue
  }

  remove(queue: WaitingQueue): void {
    queue.close()
    this.#byName.delete(queue.name)
  }

  close(): void {
    for (const queue of this.all) this.remove(queue)
  }
}

/** The name under which a stream wakes its sleepers. No name of a queue has a `/`. */
export function wakeNameOf(stream: string): string {
  return `/${stream}`
}

function isStream(name: string): boolean {
  return name.startsWith('/')
}

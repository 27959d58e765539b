import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type pg from 'pg'
import { pause } from '../basics/time/pause.ts'

/**
 * The sockets of a pool. A pool that ends waits for the connections that are borrowed or being opened, and not for the
 * goodbye of the idle ones: a half-open one would keep the process alive for as long as the operating system resends.
 */
export class Sockets {
  readonly #open = new Set<Duplex>()

  /** The configuration, with a factory whose sockets are kept here. */
  of(config: pg.ClientConfig): pg.ClientConfig {
    return { ...config, stream: (...given: unknown[]) => this.#add(socketOf(config, given)) }
  }

  /** Destroys all that are open: what has been sent and not answered has failed. */
  cut(why: string): void {
    for (const socket of this.#open) socket.destroy(new Error(why))
  }

  /** Resolves when all are closed. Those that take longer than a goodbye are destroyed. */
  async closed(): Promise<void> {
    const late = new AbortController()
    const closing = [...this.#open].map((socket) => new Promise((resolve) => socket.once('close', resolve)))
    const all = Promise.all(closing).then(() => late.abort())
    await pause(FAREWELL_MS, late.signal)
    this.cut('No goodbye')
    await all
  }

  #add(socket: Duplex): Duplex {
    this.#open.add(socket)
    socket.once('close', () => this.#open.delete(socket))
    return socket
  }
}

/**
 * A new socket, from the factory of the configuration if it has one. The driver gives that an argument which its types
 * do not show.
 */
export function socketOf(config: pg.ClientConfig, given: readonly unknown[]): Duplex {
  const factory: ((...given: readonly unknown[]) => Duplex | undefined) | undefined = config.stream
  return factory?.(...given) ?? new Socket()
}

const FAREWELL_MS = 1_000

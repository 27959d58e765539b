import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { PROCESS_MS, waitFor } from '../wait.ts'

/** A relay or an inbox of one stream of NATS. */
export interface CarrierSetup {
  readonly role: 'relay' | 'inbox'
  readonly connection: string
  readonly queue: string
  readonly servers: readonly string[]
  readonly stream: string
}

/** A relay or an inbox in a process of its own, which ends with the test. */
export class CarrierProcess {
  readonly #process: ChildProcess
  readonly #ended: Promise<unknown>
  readonly #seen: SluiceEvent['kind'][] = []
  /** How it has ended. */
  #over: string | undefined

  constructor(setup: CarrierSetup) {
    const program = new URL('./carrier-child.ts', import.meta.url)
    this.#process = fork(program, [JSON.stringify(setup)], { execArgv: [] })
    this.#process.on('message', (kind: SluiceEvent['kind']) => this.#seen.push(kind))
    this.#ended = once(this.#process, 'exit').then(([code, signal]) => {
      this.#over = String(code ?? signal)
    })
    onTestFinished(() => this.kill())
  }

  /** Resolves when it has reported this event so many times. */
  async event(kind: SluiceEvent['kind'], count = 1): Promise<void> {
    const isSeen = () => {
      const isThere = this.#seen.filter((seen) => seen === kind).length >= count
      if (!isThere && this.#over !== undefined) throw new Error(`it has ended with ${this.#over}, without ${kind}`)
      return isThere
    }
    await waitFor(isSeen, { what: `the event ${kind}`, timeoutMs: PROCESS_MS })
  }

  /** Ends it without warning. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended
  }
}

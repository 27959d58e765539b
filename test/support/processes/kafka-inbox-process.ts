import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { FromKafkaOptions } from '../../../src/kafka/from-kafka.ts'

/** What such a process receives from where, and into which queue. */
export interface KafkaInboxSetup {
  readonly url: string
  readonly queue: string
  readonly from: FromKafkaOptions
}

/** A process with an inbox that can be killed, and how many messages it has enqueued. */
export class KafkaInboxProcess {
  enqueued = 0
  readonly #process
  readonly #ended

  constructor(setup: KafkaInboxSetup) {
    this.#process = fork(new URL('./kafka-inbox.ts', import.meta.url), [JSON.stringify(setup)], { execArgv: [] })
    this.#process.on('message', (enqueued: number) => {
      this.enqueued += enqueued
    })
    this.#ended = once(this.#process, 'exit')
  }

  /** Ends it without warning. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended
  }
}

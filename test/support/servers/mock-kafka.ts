import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { programOnPath } from '../../../faults/environment/program-on-path.ts'
import { test as base } from '../sluice.ts'
import { codeOf } from './fake-kafka-protocol.ts'
import { GroupLog } from './group-log.ts'

/** `test` with a cluster of the test's own. Skips the test where it cannot be had. */
export const test = base.extend('cluster', async ({ skip }, { onCleanup }) => {
  const cluster = (await MockKafka.start()) ?? skip('kcat is not installed')
  onCleanup(() => cluster.stop())
  return cluster
})

/**
 * librdkafka's mock cluster: three servers of another author's, in one process. It stores in memory. What it does not have:
 * elections (the test says who leads), limits of size, marks of transactions, a disk.
 */
export class MockKafka {
  /** The addresses of the servers 1, 2 and 3. */
  readonly servers: readonly string[]
  readonly group: GroupLog
  readonly #process: ChildProcess
  readonly #calls: Writable
  readonly #answers: AsyncIterator<string, unknown>

  private constructor(servers: readonly string[], { process, calls, answers, group }: Started) {
    this.servers = servers
    this.group = group
    this.#process = process
    this.#calls = calls
    this.#answers = answers
  }

  /** Undefined if kcat, the library that it brings, or Python is not installed. */
  static async start(): Promise<MockKafka | undefined> {
    const [python, kcat] = await Promise.all(['python3', 'kcat'].map((name) => programOnPath(name, '/usr/bin')))
    if (python === undefined || kcat === undefined) return undefined
    const child = spawn(python, [PROGRAM, '3'], { stdio: ['pipe', 'pipe', 'pipe'] })
    const group = new GroupLog(child.stderr)
    const answers = createInterface(child.stdout)[Symbol.asyncIterator]()
    const { value } = await answers.next()
    if (value === undefined) return undefined
    return new MockKafka(String(value).split(','), { process: child, calls: child.stdin, answers, group })
  }

  /** Makes a topic, which has a copy on each server. */
  addTopic(topic: string, partitions: number): Promise<void> {
    return this.#call('topic_create', topic, partitions, this.servers.length)
  }

  /** What a topic answers from now on to those who ask for it. */
  spoilTopic(topic: string, error: string): Promise<void> {
    return this.#call('topic_set_error', topic, codeOf(error))
  }

  /** Who leads a partition from now on. */
  elect(topic: string, partition: number, server: number): Promise<void> {
    return this.#call('partition_set_leader', topic, partition, server)
  }

  /** Who coordinates a group from now on. */
  coordinate(group: string, server: number): Promise<void> {
    return this.#call('coordinator_set', 'group', group, server)
  }

  /** It ends its connections, and takes no more. */
  takeDown(server: number): Promise<void> {
    return this.#call('broker_set_down', server)
  }

  /** Takes all servers down, and returns what undoes that. */
  async cutOff(): Promise<() => Promise<void>> {
    const numbers = this.servers.map((_, at) => at + 1)
    for (const server of numbers) await this.takeDown(server)
    return async () => {
      for (const server of numbers) await this.#call('broker_set_up', server)
    }
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  async #call(name: string, ...args: readonly (string | number)[]): Promise<void> {
    this.#calls.write(`${[name, ...args].join(' ')}\n`)
    const { value } = await this.#answers.next()
    if (value !== '0') throw new Error(`${name}: expected 0, received ${String(value)}`)
  }
}

interface Started {
  readonly process: ChildProcess
  readonly calls: Writable
  readonly answers: AsyncIterator<string, unknown>
  readonly group: GroupLog
}

const PROGRAM = join(import.meta.dirname, 'mock-kafka.py')

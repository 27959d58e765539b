import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import type { MockKafka } from './mock-kafka.ts'

/** A record as kcat, which is a client of librdkafka, reads it. */
export interface ReadRecord {
  readonly partition: number
  readonly offset: number
  readonly key: string | null
  readonly payload: string | null
  readonly headers: Readonly<Record<string, string>>
}

/** All records of a topic, partition after partition. */
export async function recordsOf(
  { servers }: Pick<MockKafka, 'servers'>,
  topic: string,
): Promise<readonly ReadRecord[]> {
  const lines = await kcat(servers, ['-C', '-t', topic, '-e', '-q', '-J', '-X', 'fetch.wait.max.ms=10'])
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Envelope)
    .map(({ headers = [], ...record }) => ({ ...record, headers: pairsOf(headers) }))
    .toSorted((a, b) => a.partition - b.partition || a.offset - b.offset)
}

/** Has kcat produce a record for each line of `key=value`, whose partition is as librdkafka says. */
export async function produce(
  { servers }: Pick<MockKafka, 'servers'>,
  topic: string,
  lines: readonly string[],
  args: readonly string[] = [],
): Promise<void> {
  const terms = ['-X', 'topic.partitioner=murmur2_random', '-X', 'linger.ms=50']
  await kcat(servers, ['-P', '-t', topic, '-K', '=', ...terms, ...args], lines.join('\n'))
}

/** A member of a consumer group that is kcat, with the options that it has by itself. */
export class KafkaMember {
  /** The places of the records that it has received, as in `orders/3/4711`. */
  readonly received: string[] = []
  readonly #process
  readonly #ended: Promise<unknown>

  constructor({ servers }: Pick<MockKafka, 'servers'>, group: string, topic: string) {
    const terms = ['session.timeout.ms=3500', 'heartbeat.interval.ms=350', 'auto.offset.reset=earliest']
    const args = ['-b', servers.join(','), '-u', '-G', group, ...terms.flatMap((term) => ['-X', term])]
    this.#process = spawn('kcat', [...args, '-f', '%t/%p/%o\n', topic], { stdio: ['ignore', 'pipe', 'ignore'] })
    this.#ended = once(this.#process, 'exit')
    createInterface(this.#process.stdout).on('line', (place) => this.received.push(place))
  }

  /** Has it stand still, or go on. */
  hold(isHeld: boolean): void {
    this.#process.kill(isHeld ? 'SIGSTOP' : 'SIGCONT')
  }

  /** Has it commit its offsets, and leave the group. */
  async leave(): Promise<void> {
    this.#process.kill('SIGTERM')
    await this.#ended
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.#ended
  }
}

/** What kcat says. */
async function kcat(servers: readonly string[], args: readonly string[], input = ''): Promise<string> {
  const child = spawn('kcat', ['-b', servers.join(','), ...args], { timeout: 60_000 })
  const ended = once(child, 'exit') as Promise<[number | null]>
  // One that only reads may have ended by then. What is wrong says its exit code.
  child.stdin.on('error', () => undefined).end(input)
  const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  if (code !== 0) throw new Error(`kcat ${args.join(' ')}: ${complaint}`)
  return said
}

/** Names and values by turns. */
function pairsOf(headers: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : [])))
}

type Envelope = Omit<ReadRecord, 'headers'> & { readonly headers?: readonly string[] }

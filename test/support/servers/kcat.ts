import { spawn } from 'node:child_process'
import { once } from 'node:events'
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

/** What kcat says. */
async function kcat(servers: readonly string[], args: readonly string[], input = ''): Promise<string> {
  const child = spawn('kcat', ['-b', servers.join(','), ...args], { timeout: 60_000 })
  const ended = once(child, 'exit') as Promise<[number | null]>
  child.stdin.end(input)
  const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  if (code !== 0) throw new Error(`kcat ${args.join(' ')}: ${complaint}`)
  return said
}

/** Names and values by turns. */
function pairsOf(headers: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : [])))
}

type Envelope = Omit<ReadRecord, 'headers'> & { readonly headers?: readonly string[] }

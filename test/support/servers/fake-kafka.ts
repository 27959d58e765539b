import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type KafkaRecord, protocolErrors, Reader, readRecordsBatch, Writer } from '@platformatic/kafka'
import { onTestFinished } from 'vitest'

/** What a partition answers to the records of one request: the name of an error, or NONE. */
export type PartitionAnswer = (topic: string, partition: number, records: readonly KafkaRecord[]) => string

/**
 * One server that speaks as much of Kafka's protocol as a producer needs: ApiVersions, Metadata and Produce. It stores in
 * memory. What it does not have: replicas, elections, transactions, a disk, and all that a real cluster does otherwise.
 */
export class FakeKafka {
  readonly port: number
  /** How many partitions each topic has. */
  readonly topics: Map<string, number>
  /** What each partition has stored, by `topic:partition`. */
  readonly stored = new Map<string, KafkaRecord[]>()
  /** How many servers must have the records, as each request to store has said: -1 is all. */
  readonly acks: number[] = []
  /** False: it does not answer requests to store, and stores nothing. */
  answers = true
  answer: PartitionAnswer = () => 'NONE'
  /** The port that it names to clients, if that is not its own. */
  advertisedPort: number | undefined
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(server: Server, topics: Readonly<Record<string, number>>) {
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    this.topics = new Map(Object.entries(topics))
    server.on('connection', (socket) => this.#accept(socket))
  }

  static async start(topics: Readonly<Record<string, number>>): Promise<FakeKafka> {
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const fake = new FakeKafka(server, topics)
    onTestFinished(() => fake.#stop())
    return fake
  }

  #stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
    let received: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE()) {
        const end = 4 + received.readInt32BE()
        const answer = this.#answerTo(Reader.from(received.subarray(4, end)))
        if (answer !== undefined) socket.write(answer.prependLength().buffer)
        received = received.subarray(end)
      }
    })
  }

  #answerTo(request: Reader): Writer | undefined {
    const [api, version, correlationId] = [request.readInt16(), request.readInt16(), request.readInt32()]
    request.readNullableString(false)
    const answer = Writer.create().appendInt32(correlationId)
    if (api === API_VERSIONS)
      return version === 1 ? versions(answer) : answer.appendInt16(codeOf('UNSUPPORTED_VERSION'))
    return api === METADATA ? this.#describe(request, answer) : this.#store(request, answer)
  }

  /** Version 4. */
  #describe(request: Reader, answer: Writer): Writer {
    const names = request.readArray((r) => r.readString(false), false, false)
    return answer
      .appendInt32(0)
      .appendArray(
        [this.advertisedPort ?? this.port],
        (w, port) => w.appendInt32(NODE).appendString('127.0.0.1', false).appendInt32(port).appendString(null, false),
        ...PLAIN,
      )
      .appendString('fake', false)
      .appendInt32(NODE)
      .appendArray(names, (w, name) => this.#describeTopic(w, name), ...PLAIN)
  }

  #describeTopic(answer: Writer, name: string): void {
    const partitions = Array.from({ length: this.topics.get(name) ?? 0 }, (_, partition) => partition)
    answer
      .appendInt16(codeOf(partitions.length === 0 ? 'UNKNOWN_TOPIC_OR_PARTITION' : 'NONE'))
      .appendString(name, false)
      .appendBoolean(false)
      .appendArray(
        partitions,
        (w, partition) => {
          w.appendInt16(0).appendInt32(partition).appendInt32(NODE)
          for (const nodes of [[NODE], [NODE]]) w.appendArray(nodes, (ids, id) => ids.appendInt32(id), ...PLAIN)
        },
        ...PLAIN,
      )
  }

  /** Version 3. A partition stores all records of a request, or none. */
  #store(request: Reader, answer: Writer): Writer | undefined {
    request.readNullableString(false)
    if (!this.answers) return undefined
    this.acks.push(request.readInt16())
    request.readInt32()
    const topics = request.readArray(
      (r) => ({ name: r.readString(false), parts: r.readArray((part) => partOf(part), false, false) }),
      false,
      false,
    )
    answer.appendArray(
      topics,
      (w, { name, parts }) => {
        w.appendString(name, false).appendArray(
          parts,
          (w2, part) =>
            w2.appendInt32(part.index).appendInt16(this.#append(name, part)).appendInt64(0n).appendInt64(-1n),
          ...PLAIN,
        )
      },
      ...PLAIN,
    )
    return answer.appendInt32(0)
  }

  #append(topic: string, { index, records }: Part): number {
    const error = this.answer(topic, index, records)
    const place = `${topic}:${index}`
    if (error === 'NONE') this.stored.set(place, [...(this.stored.get(place) ?? []), ...records])
    return codeOf(error)
  }
}

interface Part {
  readonly index: number
  readonly records: readonly KafkaRecord[]
}

function partOf(request: Reader): Part {
  const index = request.readInt32()
  request.readInt32()
  return { index, records: readRecordsBatch(request).records }
}

function versions(answer: Writer): Writer {
  const served = [
    [PRODUCE, 3],
    [METADATA, 4],
    [API_VERSIONS, 1],
  ] as const
  return answer
    .appendInt16(0)
    .appendArray(
      [...served],
      (w, [api, version]) => w.appendInt16(api).appendInt16(version).appendInt16(version),
      ...PLAIN,
    )
    .appendInt32(0)
}

function codeOf(error: string): number {
  const { code } = protocolErrors[error] ?? {}
  if (code === undefined) throw new Error(`${error} is no error of Kafka`)
  return code
}

const [PRODUCE, METADATA, API_VERSIONS] = [0, 3, 18]
const NODE = 1
/** Arrays as they were before the protocol became flexible. */
const PLAIN = [false, false] as const

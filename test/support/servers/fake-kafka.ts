import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { type KafkaRecord, Reader, readRecordsBatch, Writer } from '@platformatic/kafka'
import { onTestFinished } from 'vitest'
import { FakeKafkaGroup } from './fake-kafka-group.ts'
import { answerOfGroup, SERVED_OF_GROUPS } from './fake-kafka-group-requests.ts'
import { FakeKafkaLog } from './fake-kafka-log.ts'
import { FakeKafkaLogin } from './fake-kafka-login.ts'
import { codeOf, PLAIN, topicsOf } from './fake-kafka-protocol.ts'
import { type RecordToPut, storedRecord } from './fake-kafka-records.ts'

/** What a partition answers to the records of one request: the name of an error, or NONE. */
export type PartitionAnswer = (topic: string, partition: number, records: readonly KafkaRecord[]) => string

/**
 * One server that speaks as much of Kafka's protocol as a producer and a member of a consumer group need. It stores in
 * memory. What it does not have: replicas, elections, transactions, a disk, and all that a real cluster does otherwise.
 */
export class FakeKafka {
  readonly port: number
  /** How many partitions each topic has. */
  readonly topics: Map<string, number>
  readonly log = new FakeKafkaLog()
  readonly login = new FakeKafkaLogin()
  /** How many servers must have the records, as each request to store has said: -1 is all. */
  readonly acks: number[] = []
  /** False: it does not answer requests to store, and stores nothing. */
  answers = true
  answer: PartitionAnswer = () => 'NONE'
  /** The partitions of which it says that they have no leader, by `topic:partition`. */
  readonly leaderless = new Set<string>()
  /** The errors that it answers to such requests. */
  readonly refusals = new Map<'login' | 'describe topics' | 'find group', string>()
  /** The port that it names to clients, if that is not its own. */
  advertisedPort: number | undefined
  readonly #groups = new Map<string, FakeKafkaGroup>()
  readonly #stopping = new AbortController()
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

  /** What each partition has stored, by `topic:partition`. */
  get stored(): ReadonlyMap<string, readonly KafkaRecord[]> {
    return this.log.stored
  }

  /** A group, which there is from its first member on. */
  group(name: string): FakeKafkaGroup {
    const group = this.#groups.get(name) ?? new FakeKafkaGroup()
    this.#groups.set(name, group)
    return group
  }

  /** Stores records as a producer would. */
  put(topic: string, partition: number, ...records: readonly RecordToPut[]): void {
    this.#append(topic, { index: partition, records: records.map(storedRecord) })
  }

  #stop(): void {
    this.#stopping.abort()
    for (const group of this.#groups.values()) group.stop()
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
    let received: Buffer = Buffer.alloc(0)
    // A request of a connection waits until the one before it has its answer.
    let turn = Promise.resolve()
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE()) {
        const end = 4 + received.readInt32BE()
        const request = Reader.from(received.subarray(4, end))
        turn = turn.then(async () => {
          const answer = await this.#answerTo(request, socket)
          if (answer !== undefined && socket.writable) socket.write(answer.prependLength().buffer)
        })
        received = received.subarray(end)
      }
    })
  }

  async #answerTo(request: Reader, socket: Socket): Promise<Writer | undefined> {
    const [api, version, correlationId] = [request.readInt16(), request.readInt16(), request.readInt32()]
    request.readNullableString(false)
    const answer = Writer.create().appendInt32(correlationId)
    switch (api) {
      case API_VERSIONS:
        return version === 1 ? versions(answer) : answer.appendInt16(codeOf('UNSUPPORTED_VERSION'))
      case METADATA:
        return this.#describe(request, answer)
      case PRODUCE:
        return this.#store(request, answer)
      case FETCH:
        return this.log.fetch(request, answer, this.#stopping.signal)
      case LIST_OFFSETS:
        return this.log.list(request, answer)
      case FIND_COORDINATOR:
        return answer
          .appendInt32(0)
          .appendInt16(codeOf(this.refusals.get('find group') ?? 'NONE'))
          .appendString(null, false)
          .appendInt32(NODE)
          .appendString('127.0.0.1', false)
          .appendInt32(this.advertisedPort ?? this.port)
      case SASL_HANDSHAKE:
        return this.login.handshake(socket, answer)
      case SASL_AUTHENTICATE:
        return this.login.authenticate(socket, answer, this.refusals.get('login'))
      default:
        return answerOfGroup(api, request, answer, (name) => this.group(name))
    }
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
      .appendInt16(
        codeOf(
          this.refusals.get('describe topics') ?? (partitions.length === 0 ? 'UNKNOWN_TOPIC_OR_PARTITION' : 'NONE'),
        ),
      )
      .appendString(name, false)
      .appendBoolean(false)
      .appendArray(
        partitions,
        (w, partition) => {
          const isLed = !this.leaderless.has(`${name}:${partition}`)
          w.appendInt16(codeOf(isLed ? 'NONE' : 'LEADER_NOT_AVAILABLE'))
            .appendInt32(partition)
            .appendInt32(isLed ? NODE : -1)
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
    const topics = topicsOf(request, partOf)
    answer.appendArray(
      [...topics],
      (w, { name, parts }) => {
        w.appendString(name, false).appendArray(
          [...parts],
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
    if (error === 'NONE') this.log.append(`${topic}:${index}`, records)
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
  return answer
    .appendInt16(0)
    .appendArray(
      [...SERVED, ...SERVED_OF_GROUPS],
      (w, [api, version]) => w.appendInt16(api).appendInt16(version).appendInt16(version),
      ...PLAIN,
    )
    .appendInt32(0)
}

const [PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR] = [0, 1, 2, 3, 10]
const [SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE] = [17, 18, 36]
/** Requests, each with its one version. */
const SERVED = [
  [PRODUCE, 3],
  [FETCH, 4],
  [LIST_OFFSETS, 2],
  [METADATA, 4],
  [FIND_COORDINATOR, 1],
  [SASL_HANDSHAKE, 1],
  [API_VERSIONS, 1],
  [SASL_AUTHENTICATE, 1],
] as const
const NODE = 1

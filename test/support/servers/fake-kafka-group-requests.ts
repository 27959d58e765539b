import type { Reader, Writer } from '@platformatic/kafka'
import type { FakeKafkaGroup } from './fake-kafka-group.ts'
import { codeOf, PLAIN, topicsOf } from './fake-kafka-protocol.ts'

/** The requests of members, each with its one version. */
export const SERVED_OF_GROUPS = [
  [8, 7],
  [9, 5],
  [11, 4],
  [12, 1],
  [13, 1],
  [14, 1],
] as const

/** Answers a request of a member of a group. */
export async function answerOfGroup(
  api: number,
  request: Reader,
  answer: Writer,
  groupOf: (name: string) => FakeKafkaGroup,
): Promise<Writer> {
  const group = groupOf(request.readString(false))
  const handle = HANDLERS[api]
  if (handle === undefined) throw new Error(`${api} is no request that this server knows`)
  return handle(group, request, answer.appendInt32(0))
}

type Handle = (group: FakeKafkaGroup, request: Reader, answer: Writer) => Writer | Promise<Writer>

const HANDLERS: Readonly<Record<number, Handle>> = {
  8: commit,
  9: list,
  11: join,
  12: (group, request, answer) => {
    const generation = request.readInt32()
    return answer.appendInt16(codeOf(group.heartbeat(request.readString(false), generation)))
  },
  13: (group, request, answer) => answer.appendInt16(codeOf(group.remove(request.readString(false)))),
  14: sync,
}

async function join(group: FakeKafkaGroup, request: Reader, answer: Writer): Promise<Writer> {
  const sessionMs = request.readInt32()
  request.readInt32()
  const id = request.readString(false)
  request.readString(false)
  const [protocol] = request.readArray((r) => ({ name: r.readString(false), metadata: r.readBytes(false) }), ...PLAIN)
  const joined = await group.join(id, sessionMs, Buffer.from(protocol?.metadata ?? []))
  return answer
    .appendInt16(codeOf(joined.error))
    .appendInt32(joined.generation)
    .appendString(protocol?.name ?? '', false)
    .appendString(joined.leader, false)
    .appendString(joined.memberId, false)
    .appendArray(
      [...joined.members],
      (w, { memberId, metadata }) => w.appendString(memberId, false).appendBytes(metadata, false),
      ...PLAIN,
    )
}

async function sync(group: FakeKafkaGroup, request: Reader, answer: Writer): Promise<Writer> {
  const generation = request.readInt32()
  const id = request.readString(false)
  const assigned = request.readArray((r) => [r.readString(false), Buffer.from(r.readBytes(false))] as const, ...PLAIN)
  const { error, assignment } = await group.sync(id, generation, new Map(assigned))
  return answer.appendInt16(codeOf(error)).appendBytes(assignment, false)
}

function commit(group: FakeKafkaGroup, request: Reader, answer: Writer): Writer {
  const generation = request.readInt32()
  const id = request.readString(false)
  request.readNullableString(false)
  const topics = topicsOf(request, (r) => {
    const part = { index: r.readInt32(), offset: r.readInt64() }
    r.readInt32()
    r.readNullableString(false)
    return part
  })
  const offsets = topics.flatMap(({ name, parts }) =>
    parts.map(({ index, offset }) => [`${name}:${index}`, offset] as const),
  )
  const error = codeOf(group.commit(id, generation, new Map(offsets)))
  return answer.appendArray(
    [...topics],
    (w, { name, parts }) => {
      w.appendString(name, false).appendArray(
        [...parts],
        (w2, { index }) => w2.appendInt32(index).appendInt16(error),
        ...PLAIN,
      )
    },
    ...PLAIN,
  )
}

function list(group: FakeKafkaGroup, request: Reader, answer: Writer): Writer {
  const topics = topicsOf(request, (r) => r.readInt32())
  return answer
    .appendArray(
      [...topics],
      (w, { name, parts }) => {
        w.appendString(name, false).appendArray(
          [...parts],
          (w2, index) => {
            const offset = group.committed.get(`${name}:${index}`) ?? -1n
            w2.appendInt32(index).appendInt64(offset).appendInt32(-1).appendString(null, false).appendInt16(0)
          },
          ...PLAIN,
        )
      },
      ...PLAIN,
    )
    .appendInt16(0)
}

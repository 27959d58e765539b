import { MultipleErrors, type ProduceResult, ProtocolError, ResponseError, UserError } from '@platformatic/kafka'
import type { Verdict } from '../relay/destination.ts'
import { unavailable } from '../relay/unavailable.ts'
import { failureOf, leafOf } from './kafka-failure.ts'
import { placeOf } from './record.ts'

/** A verdict, or that nothing can be published to the topic. */
export type KafkaVerdict = Verdict | { readonly kind: 'closed'; readonly error: string }

/** What became of the records of each partition. */
export interface Answers {
  /** By place. */
  readonly byPlace: ReadonlyMap<string, KafkaVerdict>
  /** Of all other partitions. */
  readonly others: Verdict
}

/** What the answer to a request says of each partition that has stored its records. */
export function stored({ offsets }: ProduceResult): Answers {
  const places = (offsets ?? []).map((offset) => [placeOf(offset), CONFIRMED] as const)
  return { byPlace: new Map(places), others: NO_ANSWER }
}

/** What an error of a request says of each partition: that of one server hides neither errors nor confirms of another. */
export function judged(thrown: unknown): Answers {
  const byPlace = new Map<string, KafkaVerdict>()
  const { produced } = thrown as { readonly produced?: ProduceResult }
  if (produced !== undefined) for (const [place, verdict] of stored(produced).byPlace) byPlace.set(place, verdict)
  for (const { topic, partition, code } of codesIn(thrown))
    byPlace.set(placeOf({ topic, partition }), code === 0 ? CONFIRMED : verdictOf(new ProtocolError(code)))
  return { byPlace, others: unavailable(failureOf(thrown)) }
}

/** What an error in asking for a topic says, or an error of the protocol: about the message, its topic, or only about the servers. */
export function verdictOf(thrown: unknown): KafkaVerdict {
  const kind = kindOf(leafOf(thrown))
  const failure = failureOf(thrown)
  return kind === undefined ? unavailable(failure) : { kind, error: failure.message }
}

/** Undefined: it says nothing about the message or its topic. */
function kindOf(error: unknown): 'refused' | 'failed' | 'closed' | undefined {
  // The client says that there is no such topic.
  if (error instanceof UserError) return 'closed'
  return error instanceof ProtocolError ? KINDS[String(error.apiId)] : undefined
}

interface Code {
  readonly topic: string
  readonly partition: number
  readonly code: number
}

function codesIn(thrown: unknown): readonly Code[] {
  if (thrown instanceof ResponseError) return codesOf((thrown as { readonly response?: unknown }).response)
  return thrown instanceof MultipleErrors ? (thrown.errors as readonly unknown[]).flatMap(codesIn) : []
}

/** The answer to a request, as the client keeps it in its error. */
function codesOf(response: unknown): readonly Code[] {
  const { responses } = response as ProduceResponse
  if (!Array.isArray(responses)) return []
  return (responses as NonNullable<ProduceResponse['responses']>).flatMap(({ name, partitionResponses }) =>
    partitionResponses.map(({ index, errorCode }) => ({ topic: name, partition: index, code: errorCode })),
  )
}

interface ProduceResponse {
  readonly responses?: readonly {
    readonly name: string
    readonly partitionResponses: readonly { readonly index: number; readonly errorCode: number }[]
  }[]
}

/** By the errors of the protocol. An unknown partition here is one whose metadata are old: the topic was there before. */
const KINDS: Readonly<Record<string, 'refused' | 'failed' | 'closed'>> = {
  CORRUPT_MESSAGE: 'refused',
  MESSAGE_TOO_LARGE: 'refused',
  INVALID_TOPIC_EXCEPTION: 'refused',
  RECORD_LIST_TOO_LARGE: 'refused',
  INVALID_TIMESTAMP: 'refused',
  INVALID_RECORD: 'refused',
  TOPIC_AUTHORIZATION_FAILED: 'closed',
  POLICY_VIOLATION: 'failed',
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const NO_ANSWER: Verdict = { kind: 'unavailable', error: 'no answer for the partition' }

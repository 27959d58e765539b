import { pause } from '../basics/pause.ts'
import { errorText } from '../errors.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from './destination.ts'
import { type Lane, type LaneKey, laneOf, lanesOf, portionsOf } from './lanes.ts'
import type { RelayPlan } from './options.ts'
import { soundVerdicts } from './sound-verdicts.ts'

/**
 * Publishes messages in waves, and returns the verdicts of those that were sent: a message is not sent before the one
 * before it of its key is confirmed, or can never be, and none is sent after one that found the destination out of reach.
 * A destination that keeps the order of a key by itself gets all messages as one wave.
 */
export async function publishBatch(
  connection: DestinationConnection,
  messages: readonly OutgoingMessage[],
  { keepsOrder, mostBytes }: Pick<RelayPlan, 'keepsOrder' | 'mostBytes'>,
  signal: AbortSignal,
): Promise<ReadonlyMap<OutgoingMessage, Verdict>> {
  const verdicts = new Map<OutgoingMessage, Verdict>()
  let lanes = keepsOrder ? messages.map((one): Lane => [one]) : lanesOf(messages)
  while (lanes.length > 0 && !signal.aborted) {
    const wave = lanes.flatMap(([first]) => first ?? [])
    if (!(await publishWave(connection, wave, mostBytes, signal, verdicts))) break
    lanes = lanes.flatMap((lane) => restOf(lane, verdicts))
  }
  return verdicts
}

/** False: the destination is out of reach. */
async function publishWave(
  connection: DestinationConnection,
  wave: readonly OutgoingMessage[],
  mostBytes: number,
  signal: AbortSignal,
  verdicts: Map<OutgoingMessage, Verdict>,
): Promise<boolean> {
  const held = new Set<LaneKey>()
  for (const portion of portionsOf(wave, mostBytes)) {
    const sent = portion.filter((outgoing) => !held.has(laneOf(outgoing)))
    if (sent.length === 0) continue
    const answers = await publishPortion(connection, sent, signal)
    const counted = countedOf(sent, answers, held)
    for (const [outgoing, verdict] of counted) verdicts.set(outgoing, verdict)
    if (signal.aborted || counted.some(([, { kind }]) => kind === 'unavailable')) return false
  }
  return true
}

/** The verdicts that count. Behind a message of its key that was not stored, a message is as if it had not been sent. */
function countedOf(
  sent: readonly OutgoingMessage[],
  answers: readonly Verdict[],
  held: Set<LaneKey>,
): readonly (readonly [OutgoingMessage, Verdict])[] {
  return sent.flatMap((outgoing, at) => {
    const lane = laneOf(outgoing)
    if (held.has(lane)) return []
    const verdict = answers[at] ?? NO_ANSWER
    if (verdict.kind !== 'confirmed') held.add(lane)
    return [[outgoing, verdict] as const]
  })
}

/**
 * An adapter that rejects, or answers too little, too late or what is no verdict, has said nothing about its messages. A verdict
 * that is not understood must not count as an answer: its message would come again at once, for ever.
 */
async function publishPortion(
  connection: DestinationConnection,
  portion: readonly OutgoingMessage[],
  signal: AbortSignal,
): Promise<readonly Verdict[]> {
  const publishing = async () => soundVerdicts(await connection.publish(portion, signal), portion.length)
  const published = publishing().catch((error: unknown) => {
    const verdict: Verdict = { kind: 'unavailable', error: errorText(error) }
    return portion.map(() => verdict)
  })
  const over = new AbortController()
  try {
    return await Promise.race([published, tooLate(portion, signal, over.signal)])
  } finally {
    // With a reason: without one, an error is made for it, whose stack takes 0.2 ms.
    over.abort('over')
  }
}

async function tooLate(
  portion: readonly OutgoingMessage[],
  signal: AbortSignal,
  over: AbortSignal,
): Promise<readonly Verdict[]> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true, signal: over })
  })
  await pause(GRACE_MS, over)
  return portion.map(() => NO_ANSWER)
}

function restOf([first, ...rest]: Lane, verdicts: ReadonlyMap<OutgoingMessage, Verdict>): readonly Lane[] {
  const kind = first === undefined ? undefined : verdicts.get(first)?.kind
  return rest.length > 0 && (kind === 'confirmed' || kind === 'refused') ? [rest] : []
}

/** How long an adapter may take to see that its time is up. */
const GRACE_MS = 1_000
const NO_ANSWER: Verdict = { kind: 'unavailable', error: 'no confirm in time' }

import { pause } from '../basics/pause.ts'
import { errorText } from '../errors.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from './destination.ts'
import { type Lane, lanesOf, portionsOf } from './lanes.ts'

/**
 * Publishes messages in waves, and returns the verdicts of those that were sent: a message is not sent before the one
 * before it of its key is confirmed, or can never be, and none is sent after one that found the destination out of reach.
 */
export async function publishBatch(
  connection: DestinationConnection,
  messages: readonly OutgoingMessage[],
  mostBytes: number,
  signal: AbortSignal,
): Promise<ReadonlyMap<OutgoingMessage, Verdict>> {
  const verdicts = new Map<OutgoingMessage, Verdict>()
  let lanes = lanesOf(messages)
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
  for (const portion of portionsOf(wave, mostBytes)) {
    const answers = await publishPortion(connection, portion, signal)
    for (const [at, outgoing] of portion.entries()) verdicts.set(outgoing, answers[at] ?? NO_ANSWER)
    if (signal.aborted || answers.some(({ kind }) => kind === 'unavailable')) return false
  }
  return true
}

/** An adapter that rejects, or answers too little or too late, has said nothing about its messages. */
async function publishPortion(
  connection: DestinationConnection,
  portion: readonly OutgoingMessage[],
  signal: AbortSignal,
): Promise<readonly Verdict[]> {
  const publishing = async () => connection.publish(portion, signal)
  const published = publishing().then(
    (verdicts) => (verdicts.length === portion.length ? verdicts : portion.map(() => MISCOUNTED)),
    (error: unknown) => portion.map((): Verdict => ({ kind: 'unavailable', error: errorText(error) })),
  )
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
const MISCOUNTED: Verdict = { kind: 'unavailable', error: 'expected one verdict for each message' }

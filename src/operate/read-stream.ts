import { expected, SluiceError } from '../errors.ts'
import type { Operations } from './operations.ts'
import { count, flag, readFields, text } from './options.ts'
import type { ReadOptions } from './read-options.ts'
import { StreamEvents } from './stream-events.ts'
import { offsetOr } from './stream-offset.ts'
import type { Reading, ReadPlan } from './stream-pages.ts'

/** Events of a stream, without a group. What reads them is loaded when it begins. @throws SluiceError OPTION_INVALID, STREAM_NAME_INVALID, STREAM_UNKNOWN */
export function readStream<Payload>(
  operations: Operations,
  stream: string,
  options: ReadOptions = {},
): StreamEvents<Payload> {
  const plan = planOf(options, operations.stream(stream))
  const reading: Reading = (work) => operations.read(work)
  return new StreamEvents(async function* (until) {
    const { streamPages } = await import('./stream-pages.ts')
    yield* streamPages(plan, reading, until)
  }, options.signal)
}

/** @throws SluiceError OPTION_INVALID */
function planOf(options: ReadOptions, stream: string): ReadPlan {
  const { signal: _, ...plan } = readFields(
    'streams.read',
    options,
    READ,
    "As in streams.read('orders', { from: 'start' })",
  )
  if (!plan.follow || options.to === undefined) return { ...plan, stream }
  const sentence = 'streams.read.to: expected none with follow, received one'
  throw new SluiceError('OPTION_INVALID', `${sentence}. Leave one of the two out`)
}

const READ = {
  from: offsetOr('start'),
  to: offsetOr('end'),
  orderingKey: text,
  type: text,
  limit: count(Number.POSITIVE_INFINITY, 1, Number.MAX_SAFE_INTEGER),
  follow: flag,
  signal,
}

function signal(value: unknown, what: string): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value
  throw expected('OPTION_INVALID', what, 'an AbortSignal', value)
}

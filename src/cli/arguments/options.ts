import { InvalidArgumentError } from 'commander'
import { checkId } from '../../basics/checks/check-id.ts'
import { exactJson } from '../../basics/checks/exact-json.ts'
import { integerWithin } from '../../basics/checks/options.ts'
import { toMs } from '../../basics/time/duration.ts'
import { isSluiceError } from '../../errors.ts'
import { type MessageState, QUEUED_STATES } from '../../message.ts'
import { checkQueueName } from '../../queues.ts'
import { checkStreamName } from '../../streams.ts'

/** Reads options and arguments for commander, which reports an InvalidArgumentError with the name of the option. */
export const parse = {
  queue: (text: string): string =>
    orInvalid(
      () => checkQueueName(text, undefined),
      'Expected 1 to 100 letters, digits and _ . : - (none of . : - first).',
    ),
  queues: (text: string, before: readonly string[] = []): readonly string[] => [
    ...before,
    ...text.split(',').map(parse.queue),
  ],
  durationMs: (text: string): number =>
    orInvalid(() => toMs(text, 'duration'), 'Expected a duration such as 250ms, 30s, 5m, 2h or 7d.'),
  /** With its offset from UTC: without one it would depend on the machine. */
  time: (text: string): Date => {
    const time = new Date(text)
    if (/^\d{4}-\d{2}-\d{2}T.*(?:Z|[+-]\d{2}:\d{2})$/.test(text) && !Number.isNaN(time.getTime())) return time
    throw new InvalidArgumentError('Expected a time with its offset from UTC, such as 2030-01-31T09:00:00Z.')
  },
  integer:
    (least: number, most: number) =>
    (text: string): number => {
      const integer = Number(text)
      if (/^\d+$/.test(text) && integer >= least && integer <= most) return integer
      throw new InvalidArgumentError(`Expected an integer from ${least} to ${most}.`)
    },
  countTo: (most: number): ((text: string) => number) => parse.integer(1, most),
  partition: (text: string): number => {
    if (/^\d{1,2}$/.test(text) && Number(text) < 64) return Number(text)
    throw new InvalidArgumentError('Expected an integer from 0 to 63.')
  },
  priority: (text: string): number => {
    if (/^[0-9]$/.test(text)) return Number(text)
    throw new InvalidArgumentError('Expected an integer from 0 to 9.')
  },
  json: (text: string): unknown => {
    try {
      return exactJson(text, 'JSON')
    } catch (error) {
      if (!isSluiceError(error)) throw new InvalidArgumentError('Expected JSON, as in \'{"id": 17}\'.')
      throw new InvalidArgumentError(`${error.message}.`)
    }
  },
  queuedState: (text: string): Exclude<MessageState, 'dead'> => {
    const state = QUEUED_STATES.find((known) => known === text)
    if (state !== undefined) return state
    const elsewhere = text === 'dead' ? ' For dead letters: sluice dead list' : ''
    throw new InvalidArgumentError(`Expected one of ${QUEUED_STATES.join(', ')}.${elsewhere}`)
  },
  /** The id of a message, or a stream and a position: see `messageId`. */
  id: (text: string): string => {
    const [, stream, position] = /^(.+)\/(\d{1,16})$/.exec(text) ?? []
    const wanted = 'Expected the id of a message, or an event such as orders/7.'
    return orInvalid(() => {
      if (stream === undefined) return checkId(text, 'id')
      integerWithin('position', Number(position), 1, Number.MAX_SAFE_INTEGER)
      return `${checkStreamName(stream, undefined)}/${position}`
    }, wanted)
  },
  messageId: (text: string): string => orInvalid(() => checkId(text, 'id'), 'Expected the id of a message.'),
  claimId: (text: string): string => orInvalid(() => checkId(text, 'claim', 'claim'), 'Expected the id of a claim.'),
  ids: (text: string, before: readonly string[] = []): readonly string[] => [...before, parse.id(text)],
}

function orInvalid<T>(read: () => T, wanted: string): T {
  try {
    return read()
  } catch (error) {
    throw isSluiceError(error) ? new InvalidArgumentError(wanted) : error
  }
}

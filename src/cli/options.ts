import { InvalidArgumentError } from 'commander'
import { checkId } from '../basics/check-id.ts'
import { toMs } from '../basics/duration.ts'
import { isSluiceError } from '../errors.ts'
import { checkQueueName } from '../queues.ts'

/** Reads options and arguments for commander, which reports an InvalidArgumentError with the name of the option. */
export const parse = {
  queue: (text: string): string =>
    orInvalid(
      () => checkQueueName(text, undefined),
      'Expected 1 to 100 letters, digits and _ . : - (none of . : - first).',
    ),
  durationMs: (text: string): number =>
    orInvalid(() => toMs(text, 'duration'), 'Expected a duration such as 250ms, 30s, 5m, 2h or 7d.'),
  countTo:
    (most: number) =>
    (text: string): number => {
      const count = Number(text)
      if (/^\d+$/.test(text) && count >= 1 && count <= most) return count
      throw new InvalidArgumentError(`Expected an integer from 1 to ${most}.`)
    },
  id: (text: string): string => orInvalid(() => checkId(text, 'id'), 'Expected the number of a message.'),
  claimId: (text: string): string =>
    orInvalid(() => checkId(text, 'claim', 'claim'), 'Expected the number of a claim.'),
  ids: (text: string, before: readonly string[] = []): readonly string[] => [...before, parse.id(text)],
}

function orInvalid<T>(read: () => T, wanted: string): T {
  try {
    return read()
  } catch (error) {
    throw isSluiceError(error) ? new InvalidArgumentError(wanted) : error
  }
}

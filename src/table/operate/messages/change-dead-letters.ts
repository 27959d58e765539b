import { requiringRows } from '../../rows-missing.ts'
import { type Execute, numberOf, only, statement } from '../../statement.ts'
import { type DeadLetterMatch, MATCHES, matchParams } from './dead-letters.ts'

/**
 * Puts dead letters back, due now, with attempts counted from zero. Returns how many.
 *
 * @throws SluiceError ROWS_MISSING
 */
export async function redriveDeadLetters(execute: Execute, match: DeadLetterMatch): Promise<number> {
  return numberOf(only(await requiringRows(execute(REDRIVE, matchParams(match)))), 'messages')
}

/** Deletes dead letters for good. Returns how many. */
export async function deleteDeadLetters(execute: Execute, match: DeadLetterMatch): Promise<number> {
  return numberOf(only(await execute(DELETE, matchParams(match))), 'messages')
}

/** Calls a function for each queue that has some. */
const inEachQueue = (call: string) => `
SELECT coalesce(sum(${call}(
         chosen.queue, $2::bigint[], $3::text,
         timestamptz 'epoch' + $4::bigint::double precision * interval '1 microsecond',
         timestamptz 'epoch' + $5::bigint::double precision * interval '1 microsecond', $6::text,
         $7::text, $8::text)), 0)::bigint AS messages
FROM (SELECT DISTINCT d.queue FROM sluice.dead_letter d WHERE ${MATCHES}) chosen`

const REDRIVE = statement('dead_redrive', inEachQueue('sluice.redrive'))

const DELETE = statement('dead_delete', inEachQueue('sluice.delete_dead_letters'))

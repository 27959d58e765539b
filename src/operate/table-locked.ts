import { SluiceError } from '../errors.ts'
import { explainTableLock } from '../table/operate/explanations.ts'
import type { Execute } from '../table/statement.ts'

/**
 * The error of a statement that has waited too long for a lock: which session has locked a table, and what ends it.
 *
 * @param read runs work in a transaction: that of the statement has failed
 */
export async function tableLocked(
  read: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>,
  cause: unknown,
): Promise<SluiceError> {
  // A login that may not see it, or a server that does not answer, gets the error without the session.
  const lock = await read(explainTableLock).catch(() => undefined)
  const found = lock === undefined ? UNKNOWN : lock.explanation
  const remedy = lock?.remedy ? `To end that session: ${lock.remedy}` : REMEDY
  return new SluiceError('TABLE_LOCKED', `A lock of a table kept this waiting. ${found} ${remedy}`, { cause })
}

const UNKNOWN = 'Which session has it is not seen, or it has ended since.'
const REMEDY = 'Try again, or see `npx sluice explain <queue>`'

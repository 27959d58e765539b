import { SluiceError } from '../errors.ts'

/**
 * The answer of a statement that counts its rows on the server.
 *
 * @throws SluiceError ROWS_MISSING if it has touched fewer rows than it should.
 */
export async function requiringRows<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw isRowsMissing(error) ? rowsMissing(error.message, error) : error
  }
}

/** The error for a statement that touched fewer rows of our tables than it should, without an error of the server. */
export function rowsMissing(what: string, cause?: unknown): SluiceError {
  return new SluiceError('ROWS_MISSING', `${what}. ${REMEDY}`, { cause })
}

/** The same for a leased message whose lease holds: it would be handled again once per lease, for ever. */
export function leftUntouched(queue: string, id: string): SluiceError {
  return rowsMissing(`sluice.message: expected to settle message ${id} of queue "${queue}", left it as it was`)
}

/** The SQLSTATE of sluice_private.require_settled and of the public functions. */
const ROWS_MISSING = 'SL001'

const REMEDY =
  'Look for a row-level security policy that does not allow it, for a trigger that returns NULL or only marks the row, ' +
  'for a rule, and for an operator "=" in a schema before pg_catalog in the search_path'

function isRowsMissing(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === ROWS_MISSING
}

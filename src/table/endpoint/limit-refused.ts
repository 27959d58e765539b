import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { SluiceError } from '../../errors.ts'

/** OPTION_INVALID if the schema has refused a limit of an endpoint without one of the queue for its tenants; else the error as it came. */
export function orLimitRefused(error: unknown): unknown {
  if (!hasSqlState(error, REFUSED) || !(error instanceof Error)) return error
  const hint = 'hint' in error && typeof error.hint === 'string' ? `. ${error.hint}` : ''
  return new SluiceError('OPTION_INVALID', `${error.message}${hint}`, { cause: error })
}

/** Raised by the functions of the schema. */
const REFUSED = 'SL081'

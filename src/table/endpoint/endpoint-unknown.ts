import { hasSqlState } from '../../basics/errors/sql-state.ts'
import { SluiceError } from '../../errors.ts'

/** ENDPOINT_UNKNOWN if the schema has found no such endpoint, otherwise the error as it came. */
export function orEndpointUnknown(error: unknown, queue: string, name: string): unknown {
  return hasSqlState(error, UNKNOWN) ? endpointUnknown(queue, name, error) : error
}

export function endpointUnknown(queue: string, name: string, cause?: unknown): SluiceError {
  const what = `Endpoint ${JSON.stringify(name)} of queue ${queue}: expected one that exists, received one that is unknown`
  return new SluiceError('ENDPOINT_UNKNOWN', `${what}. See endpoints.list(queue)`, { cause })
}

/** Raised by the functions of the schema. */
const UNKNOWN = 'SL080'

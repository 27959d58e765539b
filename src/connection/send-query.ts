import type pg from 'pg'

/** What the driver calls with a query's answer. */
export type Answered = (error: unknown, result?: unknown) => void

/**
 * Sends a query object of ours through `client.query`. A library may have replaced that, for tracing or to add a
 * comment to the text. If it sends a copy of the object's own properties, the driver makes its own query from them and
 * calls back with a result. If it expects a promise, the object can be used as one.
 *
 * @param make the query; it calls back with its answer.
 * @param answered is called with the answer, or with why there is none. Only its first call counts.
 */
export function sendQuery(
  client: Pick<pg.ClientBase, 'query'>,
  make: (callback: Answered) => pg.Submittable,
  answered: Answered,
): void {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  promise.catch(() => undefined)
  const query = make((error, result) => {
    answered(error, result)
    if (error) reject(error)
    else resolve(result)
  })
  // Not enumerable, so that a copy is a plain configuration.
  for (const method of METHODS) Object.defineProperty(query, method, { value: promise[method].bind(promise) })
  try {
    const returned: unknown = client.query(query)
    // Nothing else handles its error.
    if (returned instanceof Promise) returned.catch(answered)
  } catch (error) {
    answered(error)
  }
}

const METHODS = ['then', 'catch', 'finally'] as const

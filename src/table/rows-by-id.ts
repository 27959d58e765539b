import { type Statement, statement } from './statement.ts'

/** A statement for each way to find rows of sluice.message by their ids. */
export interface ByVersion {
  readonly current: Statement
  readonly before17: Statement
}

/**
 * From version 17 on the server always finds an array of ids in one walk over the index. Earlier versions may read the
 * queue and compare each row instead, so there the ctids come first, which takes a tenth longer. The subselect hides
 * the number of ids: if the planner saw that they are few, it would prefer a new plan for every batch to the prepared
 * one, and planning costs more than deleting.
 *
 * A row that was moved since the statement began is found by its id, and not by its ctid.
 *
 * @param text is given the condition on the rows `m`, as a function of the ids, once for each way
 */
export function byVersion(name: string, text: (found: (ids: string) => string) => string): ByVersion {
  const byId = (ids: string) => `m.queue = $1::text AND m.id = ANY ((SELECT ${ids})::bigint[])`
  const byCtid = (ids: string) => `m.ctid = ANY (${ctidsOf(ids)})`
  return { current: statement(name, text(byId)), before17: statement(`${name}_by_ctid`, text(byCtid)) }
}

/** A statement that finds its rows by itself. */
export function inEveryVersion(made: Statement): ByVersion {
  return { current: made, before17: made }
}

export function ofVersion(statements: ByVersion, serverVersion: number): Statement {
  return serverVersion >= 170_000 ? statements.current : statements.before17
}

/**
 * The ctids of messages of queue $1, looked up one by one in the primary key, whatever the statistics say.
 * Otherwise the planner may think that the queue is nearly empty and read all of it: 12,000 buffers instead of 600 for a
 * hundred messages of 600,000.
 */
function ctidsOf(ids: string): string {
  return `ARRAY(
  SELECT at.ctid
  FROM pg_catalog.unnest(${ids}) AS given (id)
  CROSS JOIN LATERAL (SELECT m.ctid FROM sluice.message m WHERE m.queue = $1::text AND m.id = given.id LIMIT 1) at
)`
}

import { statement } from './statement.ts'

/**
 * Settings that a database or a role may have and under which a statement of ours would be compiled, or planned in a
 * way that reads or sorts a backlog, each with the value that ours need. All are as old as PostgreSQL 14. Compiling
 * takes 50 to 300 ms and is done again for each run; what a claim takes is 0.3 ms.
 */
const NEEDED = [
  ['jit', 'off'],
  ['enable_nestloop', 'on'],
  ['enable_indexscan', 'on'],
  ['enable_tidscan', 'on'],
] as const

/** For a session of which nothing is known yet. */
export const EVERY_SETTING: readonly string[] = NEEDED.map(([name]) => name)

/** Sets them for a transaction. */
export function setLocal(names: readonly string[]): string {
  return NEEDED.filter(([name]) => names.includes(name))
    .map(([name, value]) => `; SET LOCAL ${name} = ${value}`)
    .join('')
}

/** Gives them back to the database and the role, for the rest of a transaction. */
function unsetLocal(names: readonly string[]): string {
  return NEEDED.filter(([name]) => names.includes(name))
    .map(([name]) => `; SET LOCAL ${name} = DEFAULT`)
    .join('')
}

/**
 * What the planner must keep to while a batch is claimed. One plan for each statement, kept: planning a claim takes
 * longer than running it, and the server would do it for every claim, because with the numbers before its eyes it
 * finds each plan a little better than the kept one (one message per transaction: 3,800 claims/s with, 6,700 without).
 * It may neither sort nor build bitmaps: with stale statistics it would read and sort the backlog of a slot, which the
 * index has in order. A handler's statements are planned as the database says.
 */
export const CLAIM_SETTINGS =
  'SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off'
const HANDLER_SETTINGS =
  'SET LOCAL plan_cache_mode = DEFAULT; SET LOCAL enable_sort = DEFAULT; SET LOCAL enable_seqscan = DEFAULT'

/** All that statements of ours need in a transaction: the same always, and what the database or role has otherwise. */
export function claimSettings(names: readonly string[] = EVERY_SETTING): string {
  return `${CLAIM_SETTINGS}${setLocal(names)}`
}

/** Undoes {@link claimSettings}, for a handler's statements. */
export function handlerSettings(names: readonly string[]): string {
  return `${HANDLER_SETTINGS}${unsetLocal(names)}`
}

/** For the rest of a transaction each statement is planned for the values that it is given. */
export const PLAN_FOR_VALUES = statement(
  'planner_for_values',
  `SELECT pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true)`,
)

/**
 * The same for what reads a page in the order of an index. With stale statistics the planner would rather read and sort
 * the whole queue: a page of 50 was 3,264 buffers for 180,000 messages in a table that had never been analyzed, and is
 * 60.
 */
export const PLAN_BY_INDEX = statement(
  'planner_by_index',
  `SELECT pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),
       pg_catalog.set_config('enable_sort', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true)`,
)

const LIST = NEEDED.map(([name, value]) => `('${name}', '${value}')`).join(', ')

/** The names of those that a session has otherwise, as one text. */
export const DEVIATING = `
  (SELECT coalesce(pg_catalog.string_agg(needed.name, ' '), '') FROM (VALUES ${LIST}) AS needed (name, value)
   WHERE pg_catalog.current_setting(needed.name) OPERATOR(pg_catalog.<>) needed.value)`

/** Sets all of them for a session that is ours alone. */
export const CONFIGURE_PLANNER = statement(
  'planner_configure',
  `SELECT pg_catalog.set_config(needed.name, needed.value, false) FROM (VALUES ${LIST}) AS needed (name, value)`,
)

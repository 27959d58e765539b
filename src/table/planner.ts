import { statement } from './statement.ts'

/**
 * Settings with the values that our statements need. With other values, which a database or a role may set, a
 * statement would be compiled (JIT), or planned so that it reads or sorts a backlog. PostgreSQL 14 has all of them.
 * Compiling takes 50 to 300 ms in each run; a claim takes 0.3 ms. Without array_nulls, a NULL in an array that we send
 * would be the text 'NULL'.
 */
const NEEDED = [
  ['jit', 'off'],
  ['enable_nestloop', 'on'],
  ['enable_indexscan', 'on'],
  ['enable_tidscan', 'on'],
  ['array_nulls', 'on'],
] as const

/** For a session whose settings are not known yet. */
export const EVERY_SETTING: readonly string[] = NEEDED.map(([name]) => name)

/** Sets them for a transaction. */
export function setLocal(names: readonly string[]): string {
  return NEEDED.filter(([name]) => names.includes(name))
    .map(([name, value]) => `; SET LOCAL ${name} = ${value}`)
    .join('')
}

/** Sets them back to the values of the database and the role, for the rest of a transaction. */
function unsetLocal(names: readonly string[]): string {
  return NEEDED.filter(([name]) => names.includes(name))
    .map(([name]) => `; SET LOCAL ${name} = DEFAULT`)
    .join('')
}

/**
 * The planner's settings while a batch is claimed. Each statement keeps one plan: planning a claim takes longer than
 * running it, and the server would plan every claim, because each plan for given values looks a little cheaper than the
 * kept one (one message per transaction: 3,800 claims/s when planned, 6,700 with kept plans). The planner may neither
 * sort nor build bitmaps: with stale statistics it would read and sort the backlog of a slot, which the index has in
 * order. A handler's statements are planned as the database says.
 */
export const CLAIM_SETTINGS =
  'SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off'
const HANDLER_SETTINGS =
  'SET LOCAL plan_cache_mode = DEFAULT; SET LOCAL enable_sort = DEFAULT; SET LOCAL enable_seqscan = DEFAULT'

/**
 * All that our statements need in a transaction: the constant settings, and those that database or role set otherwise.
 */
export function claimSettings(names: readonly string[] = EVERY_SETTING): string {
  return `${CLAIM_SETTINGS}${setLocal(names)}`
}

/** Undoes {@link claimSettings}, for a handler's statements. */
export function handlerSettings(names: readonly string[]): string {
  return `${HANDLER_SETTINGS}${unsetLocal(names)}`
}

/** Makes the server plan each statement for its values, for the rest of a transaction. */
export const PLAN_FOR_VALUES = statement(
  'planner_for_values',
  `SELECT pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true)`,
)

/**
 * The same for a statement that reads a page in the order of an index. With stale statistics the planner would read and
 * sort the whole queue: a page of 50 took 3,264 buffers for 180,000 messages in a table that had never been analyzed,
 * and takes 60 now.
 */
export const PLAN_BY_INDEX = statement(
  'planner_by_index',
  `SELECT pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true),
       pg_catalog.set_config('enable_sort', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true)`,
)

const LIST = NEEDED.map(([name, value]) => `('${name}', '${value}')`).join(', ')

/** The names of the settings that differ in a session, as one text. */
export const DEVIATING = `
  (SELECT coalesce(pg_catalog.string_agg(needed.name, ' '), '') FROM (VALUES ${LIST}) AS needed (name, value)
   WHERE pg_catalog.current_setting(needed.name) OPERATOR(pg_catalog.<>) needed.value)`

/** Sets all of them for a session that only Sluice uses. */
export const CONFIGURE_PLANNER = statement(
  'planner_configure',
  `SELECT pg_catalog.set_config(needed.name, needed.value, false) FROM (VALUES ${LIST}) AS needed (name, value)`,
)

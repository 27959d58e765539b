import { statement } from './statement.ts'

/**
 * Settings that a database or a role may have and under which a statement of ours would be compiled, or planned in a way
 * that reads or sorts a backlog, each with the value that ours need. All are as old as PostgreSQL 14. Compiling takes 50
 * to 300 ms and is done again for each run; what a claim takes is 0.3 ms.
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
export function unsetLocal(names: readonly string[]): string {
  return names.map((name) => `; SET LOCAL ${name} = DEFAULT`).join('')
}

const LIST = NEEDED.map(([name, value]) => `('${name}', '${value}')`).join(', ')

/** The names of those that a session has otherwise, as one text. */
export const DEVIATIONS = `
  (SELECT coalesce(pg_catalog.string_agg(needed.name, ' '), '') FROM (VALUES ${LIST}) AS needed (name, value)
   WHERE pg_catalog.current_setting(needed.name) OPERATOR(pg_catalog.<>) needed.value)`

/** Sets all of them for a session that is ours alone. */
export const CONFIGURE_PLANNER = statement(
  'planner_configure',
  `SELECT pg_catalog.set_config(needed.name, needed.value, false) FROM (VALUES ${LIST}) AS needed (name, value)`,
)
